// Datasets whose records a test knows: sample i has the bytes of bytes_for(i) as its image and the label i
// % 2.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/random.h"
#include "io/data/dataset_writer.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {

inline constexpr uint64_t kMap = 1 << 30;

inline Schema image_schema(int64_t records_per_value, bool zstd = false) {
  Schema schema;
  schema.fields = {{"image", FieldKind::kImage, DType::kU8, {}},
                   {"label", FieldKind::kLabel, DType::kI64, {}},
                   {"path", FieldKind::kBytes, DType::kU8, {}}};
  schema.classes = {"cat", "dog"};
  schema.records_per_value = records_per_value;
  schema.zstd = zstd;
  return schema;
}

inline std::vector<std::byte> bytes_for(int64_t sample, size_t mean_size) {
  RandomStream random(99, static_cast<uint64_t>(sample));
  std::vector<std::byte> bytes(random.below(static_cast<uint32_t>(2 * mean_size)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(7));
  return bytes;
}

inline PackedRecord record_for(RecordPacker& packer, int64_t sample, size_t mean_size) {
  const std::vector<std::byte> image = bytes_for(sample, mean_size);
  const int64_t label = sample % 2;
  const std::string path = "class/" + std::to_string(sample) + ".jpg";
  const std::span<const std::byte> values[] = {image, std::as_bytes(std::span(&label, 1)),
                                               std::as_bytes(std::span(path))};
  RecordHeader header;
  header.width = static_cast<int32_t>(100 + sample);
  header.height = 7;
  header.channels = 3;
  header.orientation = 6;
  header.layout = ImageLayout::kJpeg;
  PackedRecord packed = *packer.pack(values, header);
  packed.pixel_sums.pixels = 1;
  packed.pixel_sums.color_pixels = 1;
  packed.pixel_sums.sum = {51, 102, 255};
  packed.pixel_sums.sum_of_squares = {51 * 51, 102 * 102, 255 * 255};
  return packed;
}

inline void expect_ok(const Status& status) {
  ASSERT_TRUE(status.ok()) << status.message();
}

// Writes samples [0, count) with a commit after every `commit_every`.
inline void write_dataset(const std::string& directory, const Schema& schema, int64_t count, size_t mean_size,
                          int64_t commit_every) {
  std::filesystem::create_directories(directory);
  auto writer = value_or_throw(DatasetWriter::open(directory, schema, kMap));
  RecordPacker packer(schema);
  for (int64_t sample = writer->samples(); sample < count; ++sample) {
    expect_ok(writer->add(record_for(packer, sample, mean_size)));
    if (sample % 100 == 3) expect_ok(writer->skip(sample, "bad/" + std::to_string(sample), "corrupt"));
    if ((sample + 1) % commit_every == 0) expect_ok(writer->commit(sample + 1));
  }
  expect_ok(writer->finish(count));
}

}  // namespace dlpipe::data
