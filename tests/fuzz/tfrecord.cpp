// Any bytes as a TFRecord file, and as the one record of a file whose checksums fit; what is listed is read or refused.
#include <cstdlib>
#include <string>

#include "dlpipe/source.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/io/data/sources/wire_writing.h"

static void take(const std::string& path) {
  const auto source = dlpipe::data::open_source({path, ""});
  if (!source.ok()) std::abort();
  const auto listing = (*source)->list();
  if (!listing.ok()) return;
  for (const auto& entry : listing->entries) {
    if (!entry.problem.empty()) continue;
    const auto bytes = (*source)->read(entry);
    if (bytes.ok() && bytes->size() != entry.size_bytes) std::abort();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  take(folder.write("x.tfrecord", data, size));
  const std::string whole = dlpipe::data::tfrecord({reinterpret_cast<const char*>(data), size});
  take(folder.write("y.tfrecord", reinterpret_cast<const uint8_t*>(whole.data()), whole.size()));
  return 0;
}
