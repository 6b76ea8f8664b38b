// Any bytes as a text: sequences of every length must be readable, each token among those that were named.
#include <cstdlib>

#include "dlpipe/source.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  const std::string path = folder.write("book.txt", data, size);
  for (const int64_t length : {1, 3, 64}) {
    const auto source = dlpipe::data::open_source({.path = path, .length = length});
    if (!source.ok()) std::abort();
    const auto listing = (*source)->list();
    if (!listing.ok()) continue;
    if (listing->tokens != length + 1 || listing->entries.empty()) std::abort();
    for (const auto& entry : listing->entries) {
      const auto tokens = (*source)->read(entry);
      if (!tokens.ok() || tokens->size() != static_cast<size_t>(listing->tokens)) std::abort();
      for (const std::byte token : *tokens) {
        if (static_cast<size_t>(token) >= listing->classes.size()) std::abort();
      }
    }
  }
  return 0;
}
