// Any bytes as an .npz and as an .npy: what is listed is read or refused; as an array alone, too.
#include <cstdlib>
#include <string>

#include "dlpipe/source.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/formats/npy.h"
#include "tests/fuzz/fuzz_folder.h"

static void take(const std::string& path, const std::string& scratch) {
  dlpipe::data::SourceOptions options{path, ""};
  options.scratch = std::make_shared<dlpipe::data::ScratchSpace>(scratch);
  const auto source = dlpipe::data::open_source(options);
  if (!source.ok()) std::abort();
  const auto listing = (*source)->list();
  if (!listing.ok()) return;
  size_t read = 0;
  for (const auto& entry : listing->entries) {
    constexpr size_t kEnough = 100;
    if (++read > kEnough) return;
    const auto bytes = (*source)->read(entry);
    if (bytes.ok() && bytes->size() != entry.size_bytes) std::abort();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  take(folder.write("x.npz", data, size), folder.path());
  take(folder.write("x.npy", data, size), folder.path());
  const auto array = dlpipe::formats::parse_npy({reinterpret_cast<const char*>(data), size}, "x.npy");
  if (!array.ok()) return 0;
  uint64_t bytes = dlpipe::dtype_size(array->dtype);
  for (const int64_t axis : array->shape) bytes *= static_cast<uint64_t>(axis);
  if (array->bytes.size() != bytes) std::abort();
  return 0;
}
