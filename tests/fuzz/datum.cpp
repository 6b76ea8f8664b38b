// Any bytes as a data.mdb of Caffe's; what is listed is read or refused.
#include <filesystem>

#include "dlpipe/source.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  std::filesystem::create_directories(folder.path("db"));
  folder.write("db/data.mdb", data, size);
  const auto source = dlpipe::data::open_source({folder.path("db"), ""});
  if (!source.ok()) return 0;
  const auto listing = (*source)->list();
  if (!listing.ok()) return 0;
  for (const auto& entry : listing->entries) (void)(*source)->read(entry).ok();
  return 0;
}
