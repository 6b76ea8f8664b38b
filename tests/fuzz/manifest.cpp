// Any text as a CSV, TSV or JSONL manifest of a folder with one image, with columns of every kind.
#include "dlpipe/source.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  static const std::string image = folder.write("a.png", data, 0);
  for (const char* name : {"list.csv", "list.tsv", "list.jsonl"}) {
    dlpipe::data::SourceOptions options{folder.path(), folder.write(name, data, size)};
    const auto plain = dlpipe::data::open_source(options);
    if (plain.ok()) (void)(*plain)->list();
    options.fields = {"tags:labels", "boxes:boxes", "pose:numbers"};
    const auto typed = dlpipe::data::open_source(options);
    if (typed.ok()) (void)(*typed)->list();
  }
  return 0;
}
