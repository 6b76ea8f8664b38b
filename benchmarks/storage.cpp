// How long does it take to open a dataset, and to find a record? What `dlpipe bench storage` measures, on
// datasets written here: 100,000 small records packed 64 to a value (115 MB), the same compressed, 4,000 that
// stand alone (400 MB), and 2,000,000 tiny ones (220 MB). In memory: the disk is not part of it. Opening is the
// median of 21 times; it reads the header table and compares it with the id.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/counters.h"
#include "dlpipe/dataset.h"
#include "dlpipe/random.h"
#include "io/data/dataset_writer.h"
#include "io/data/inspect.h"

namespace dlpipe::data {
namespace {

struct Form {
  const char* name;
  int64_t samples;
  size_t record_bytes;
  int64_t records_per_value;
  bool zstd;
};
constexpr Form kForms[] = {{"packed", 100'000, 1'100, 64, false},
                           {"packed_zstd", 100'000, 1'100, 64, true},
                           {"alone", 4'000, 100'000, 1, false},
                           {"many", 2'000'000, 64, 512, false}};

// Written once, removed at exit.
struct Directory {
  std::string path;
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "dlpipe_storage_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

std::shared_ptr<const Dataset> make(const Form& form) {
  static Directory root;
  const std::string directory = root.path + "/" + form.name;
  std::filesystem::create_directories(directory);
  Schema schema;
  schema.fields = {{"image", FieldKind::kImage, DType::kU8, {}},
                   {"label", FieldKind::kLabel, DType::kI64, {}}};
  schema.classes = {"one"};
  schema.records_per_value = form.records_per_value;
  schema.zstd = form.zstd;
  auto writer = value_or_throw(DatasetWriter::open(directory, schema, uint64_t{4} << 30));
  RecordPacker packer(schema);
  RandomStream random(1, 1);
  std::vector<std::byte> image(form.record_bytes);
  for (std::byte& byte : image) byte = static_cast<std::byte>(random.below(64));
  const int64_t label = 0;
  for (int64_t i = 0; i < form.samples; ++i) {
    image[static_cast<size_t>(i) % image.size()] ^= std::byte{1};
    const std::span<const std::byte> values[] = {image, std::as_bytes(std::span(&label, 1))};
    throw_if_error(writer->add(value_or_throw(packer.pack(values, {}))));
    if (i % 2000 == 1999) throw_if_error(writer->commit(static_cast<uint64_t>(i)));
  }
  throw_if_error(writer->finish(static_cast<uint64_t>(form.samples)));
  return value_or_throw(Dataset::open(directory));
}

double open_ms(const std::string& directory) {
  std::vector<int64_t> times;
  for (int i = 0; i < 21; ++i) {
    const int64_t begin_ns = now_ns();
    (void)value_or_throw(Dataset::open(directory));
    times.push_back(now_ns() - begin_ns);
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]) * 1e-6;
}

int run() {
  std::printf("%-12s %9s %9s %9s %14s %7s %14s %14s %13s\n", "records", "samples", "MB", "open ms",
              "random read ns", "spread", "in order ns", "header row ns", "checksum GB/s");
  for (const Form& form : kForms) {
    const std::shared_ptr<const Dataset> dataset = make(form);
    const StorageBench bench = value_or_throw(bench_storage(*dataset, {.seconds = 2, .seed = 2}));
    std::printf("%-12s %9lld %9.1f %9.2f %14.0f %6.0f%% %14.0f %14.1f %13.2f\n", form.name,
                static_cast<long long>(bench.samples), static_cast<double>(bench.file_bytes) / 1e6,
                open_ms(dataset->directory()), bench.random_record_ns, 100 * bench.random_spread,
                bench.sequential_record_ns, bench.header_ns, bench.checksum_bytes_per_s / 1e9);
  }
  return 0;
}

}  // namespace
}  // namespace dlpipe::data

int main() {
  return dlpipe::data::run();
}
