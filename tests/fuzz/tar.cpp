// Any bytes as a tar archive, packed or not; what is listed must be readable, and only within the archive.
#include <cstdlib>

#include "dlpipe/source.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  dlpipe::data::SourceOptions options;
  options.path = folder.write("x.tar", data, size);
  options.scratch = std::make_shared<dlpipe::data::ScratchSpace>(folder.path());
  const auto source = dlpipe::data::open_source(options);
  if (!source.ok()) std::abort();
  const auto listing = (*source)->list();
  if (!listing.ok()) return 0;
  for (const auto& entry : listing->entries) {
    if (!entry.problem.empty()) continue;
    const auto bytes = (*source)->read(entry);
    if (!bytes.ok() || bytes->size() != entry.size_bytes) std::abort();
  }
  return 0;
}
