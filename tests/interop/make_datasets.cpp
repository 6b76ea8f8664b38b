// Makes the datasets that read_datasets.py reads: OUT/NAME from OUT/NAME.src, one for each way of storing.
#include <cstdio>
#include <filesystem>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "run/ingest/synth.h"
#include "tests/base/test_file.h"

namespace fs = std::filesystem;
using namespace dlpipe;

static void make(const fs::path& out, const std::string& name, bool zstd, ingest::Store store) {
  ingest::IngestOptions options;
  options.sources = {(out / (name + ".src")).string()};
  options.destination = (out / name).string();
  options.zstd = zstd;
  options.store = store;
  options.jobs = 2;
  options.jpeg = ingest::JpegLayout::kStandard;  // coefficient records are read by dlpipe alone
  value_or_throw(ingest::ingest(options));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const fs::path out = argv[1];
  try {
    // Every stored form of the codec's tests, in two classes, and one file that is no image.
    size_t number = 0;
    for (const auto& entry : fs::directory_iterator(test_file("io/data/codec/images"))) {
      if (entry.path().extension() == ".txt") continue;
      for (const char* name : {"forms.src", "forms_raw.src"}) {
        const fs::path folder = out / name / (number % 2 == 0 ? "even" : "odd");
        fs::create_directories(folder);
        fs::copy_file(entry.path(), folder / entry.path().filename());
      }
      ++number;
    }
    fs::copy_file(test_file("interop/make_datasets.cpp"), out / "forms.src/odd/text.jpg");
    for (const auto& [name, size] :
         {std::pair("packed", 24), std::pair("packed_zstd", 24), std::pair("alone", 256)}) {
      ingest::SynthOptions options;
      options.directory = (out / (std::string(name) + ".src")).string();
      options.per_class = size > 100 ? 8 : 60;
      options.size_min = options.size_max = size;
      value_or_throw(ingest::synth(options));
    }
    make(out, "forms", false, ingest::Store::kAuto);
    make(out, "forms_raw", true, ingest::Store::kRaw);
    make(out, "packed", false, ingest::Store::kAuto);
    make(out, "packed_zstd", true, ingest::Store::kAuto);
    make(out, "alone", false, ingest::Store::kAuto);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
