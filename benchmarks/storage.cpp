// How long does it take to find a record? Datasets written here: 100,000 small records packed 64 to a value
// (115 MB), the same compressed, and 4,000 that stand alone (400 MB). In memory: the disk is not part of it.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "dlpipe/base/rng.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/dataset_writer.h"

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
                           {"alone", 4'000, 100'000, 1, false}};

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
  auto dataset = value_or_throw(Dataset::open(directory));
  auto reader = value_or_throw(dataset->reader());
  for (int64_t i = 0; i < form.samples; ++i)
    benchmark::DoNotOptimize(checksum64(value_or_throw(reader->record(i))));
  return dataset;
}

const Dataset& dataset_of(const Form& form) {
  static std::map<std::string, std::shared_ptr<const Dataset>> made;
  auto& dataset = made[form.name];
  if (dataset == nullptr) dataset = make(form);
  return *dataset;
}

void random_record(benchmark::State& state, const Form& form) {
  const Dataset& dataset = dataset_of(form);
  auto reader = value_or_throw(dataset.reader());
  RandomStream random(2, 2);
  for (auto unused : state) {
    const auto record = value_or_throw(reader->record(random.below(static_cast<uint32_t>(form.samples))));
    benchmark::DoNotOptimize(record.front());
    benchmark::DoNotOptimize(record.back());
  }
  state.SetItemsProcessed(state.iterations());
}

void random_header(benchmark::State& state, const Form& form) {
  const Dataset& dataset = dataset_of(form);
  RandomStream random(2, 2);
  for (auto unused : state)
    benchmark::DoNotOptimize(dataset.header(random.below(static_cast<uint32_t>(form.samples))));
  state.SetItemsProcessed(state.iterations());
}

void checksum_all(benchmark::State& state, const Form& form) {
  const Dataset& dataset = dataset_of(form);
  auto reader = value_or_throw(dataset.reader());
  int64_t sample = 0;
  int64_t bytes = 0;
  for (auto unused : state) {
    const auto record = value_or_throw(reader->record(sample));
    benchmark::DoNotOptimize(checksum64(record));
    bytes += static_cast<int64_t>(record.size());
    sample = (sample + 1) % form.samples;
  }
  state.SetBytesProcessed(bytes);
}

}  // namespace
}  // namespace dlpipe::data

int main(int argc, char** argv) {
  using namespace dlpipe::data;
  for (const Form& form : kForms) {
    const std::string name = form.name;
    benchmark::RegisterBenchmark(("random_record/" + name).c_str(), random_record, form);
    benchmark::RegisterBenchmark(("random_header/" + name).c_str(), random_header, form);
    benchmark::RegisterBenchmark(("checksum/" + name).c_str(), checksum_all, form);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
