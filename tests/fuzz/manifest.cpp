// Any text as a CSV or TSV manifest of a folder with one picture.
#include "dlpipe/io/data/sources/source.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  static const std::string picture = folder.write("a.png", data, 0);
  for (const char* name : {"list.csv", "list.tsv"}) {
    const auto source = dlpipe::data::open_source({folder.path(), folder.write(name, data, size)});
    if (source.ok()) (void)(*source)->list();
  }
  return 0;
}
