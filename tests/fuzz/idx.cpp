// Any bytes as IDX images, plain or gzipped, beside labels that are well; what is listed must be readable.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "dlpipe/source.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  constexpr std::array<uint8_t, 10> kLabels = {0, 0, 8, 1, 0, 0, 0, 2, 7, 1};  // two
  const std::string images = folder.write("images-idx3-ubyte", data, size);
  folder.write("labels-idx1-ubyte", kLabels.data(), kLabels.size());
  const auto source = dlpipe::data::open_source({images, ""});
  if (!source.ok()) return 0;
  const auto listing = (*source)->list();
  if (!listing.ok()) return 0;
  for (const auto& entry : listing->entries) {
    const auto bytes = (*source)->read(entry);
    if (!bytes.ok() || bytes->size() != entry.size_bytes) std::abort();
  }
  return 0;
}
