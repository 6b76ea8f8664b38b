// Any bytes as a file of CIFAR-10 in binary; what is listed must be readable.
#include <cstdlib>

#include "dlpipe/source.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  const auto source = dlpipe::data::open_source({folder.write("data_batch_1.bin", data, size), ""});
  if (!source.ok()) std::abort();
  const auto listing = (*source)->list();
  if (!listing.ok()) return 0;
  for (const auto& entry : listing->entries) {
    const auto bytes = (*source)->read(entry);
    if (!bytes.ok() || bytes->size() != entry.size_bytes) std::abort();
  }
  return 0;
}
