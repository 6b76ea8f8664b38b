#include "io/data/sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/text.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/written_dataset.h"

namespace dlpipe::data {
namespace {

/// A dataset of one record with these bytes as its image.
std::shared_ptr<const Dataset> dataset_of(const std::string& directory, std::span<const std::byte> image,
                                          int width, int height, ImageLayout layout) {
  const Schema schema = image_schema(1);
  std::filesystem::create_directories(directory);
  auto writer = value_or_throw(DatasetWriter::open(directory, schema, kMap));
  RecordPacker packer(schema);
  const int64_t label = 1;
  const std::string path = "dog/1";
  const std::span<const std::byte> values[] = {image, std::as_bytes(std::span(&label, 1)),
                                               std::as_bytes(std::span(path))};
  RecordHeader header;
  header.width = width;
  header.height = height;
  header.channels = 3;
  header.layout = layout;
  expect_ok(writer->add(*packer.pack(values, header)));
  expect_ok(writer->finish(1));
  return value_or_throw(Dataset::open(directory));
}

TEST(RaggedField, GivesTheBytesOfEachSample) {
  TempDir dir;
  const auto dataset = dataset_of(dir / "d", read_image("exif_7.jpg"), 1, 1, ImageLayout::kJpeg);
  const int64_t samples[] = {0, -1, 0};
  const RaggedField paths = value_or_throw(read_ragged_field(*dataset, samples, "path"));
  EXPECT_EQ(paths.offsets, (std::vector<int64_t>{0, 5, 5, 10}));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(paths.bytes.data()), paths.bytes.size()),
            "dog/1dog/1");
  EXPECT_EQ(read_ragged_field(*dataset, samples, "text").status().code(), ErrorCode::kNotFound);
  const int64_t past_the_end[] = {1};
  EXPECT_FALSE(read_ragged_field(*dataset, past_the_end, "path").ok());
}

TEST(Sample, GivesPixelsAsSeenAndTheFileAsItWas) {
  TempDir dir;
  const std::vector<std::byte> jpeg = read_image("exif_7.jpg");  // turned
  const ImageInfo info = value_or_throw(probe_image(jpeg));
  ASSERT_TRUE(swaps_axes(info.orientation));
  const auto dataset = dataset_of(dir / "d", jpeg, info.height, info.width, ImageLayout::kJpeg);
  const auto reader = value_or_throw(SampleReader::open(*dataset));
  const SampleReader::Sample sample = value_or_throw(reader->read(0));
  EXPECT_EQ(sample.view.label, 1);
  EXPECT_TRUE(value_or_throw(reader->file(sample)).bytes == jpeg);

  const int width = info.height, height = info.width;
  const ptrdiff_t stride = ptrdiff_t{3} * width;
  std::vector<uint8_t> pixels(static_cast<size_t>(stride * height)), expected(pixels.size());
  expect_ok(reader->decode(sample, {pixels.data(), width, height, 3, stride}));
  expect_ok(ImageDecoder().decode_oriented(jpeg, info, {0, 0, width, height},
                                           {expected.data(), width, height, 3, stride}));
  EXPECT_EQ(pixels, expected);
}

TEST(Sample, RefusesAnImageOfAnotherSizeThanItsRow) {
  TempDir dir;
  const std::vector<std::byte> jpeg = read_image("exif_7.jpg");
  const auto dataset = dataset_of(dir / "d", jpeg, 5, 4, ImageLayout::kJpeg);
  const auto reader = value_or_throw(SampleReader::open(*dataset));
  std::vector<uint8_t> pixels(5 * 4 * 3);
  const Status status =
      reader->decode(value_or_throw(reader->read(0)), {pixels.data(), 5, 4, 3, ptrdiff_t{5} * 3});
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("sample 0"), std::string::npos) << status.message();
}

TEST(Sample, SaysWhatHasNoImageAndWhatIsBeyondTheEnd) {
  TempDir dir;
  const auto dataset = dataset_of(dir / "d", {}, 0, 0, ImageLayout::kNone);
  const auto reader = value_or_throw(SampleReader::open(*dataset));
  const SampleReader::Sample sample = value_or_throw(reader->read(0));
  EXPECT_EQ(reader->decode(sample, {}).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(reader->file(sample).status().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(reader->read(1).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(reader->read(-1).status().code(), ErrorCode::kMisuse);
}

TEST(LoopOrder, TakesTheImageFirstAndTheLabelSecond) {
  const Field image{"jpg", FieldKind::kImage, DType::kU8, {}};
  const Field label{"cls", FieldKind::kLabel, DType::kI64, {}};
  const Field path{"path", FieldKind::kBytes, DType::kU8, {}};
  const Field age{"age", FieldKind::kTensor, DType::kF32, {1}};
  using Order = std::vector<size_t>;
  EXPECT_EQ(loop_order(std::array{image, label, path}), (Order{0, 1, 2}));
  EXPECT_EQ(loop_order(std::array{path, age, label, image}), (Order{3, 2, 0, 1}));
  EXPECT_EQ(loop_order(std::array{image, age, label}), (Order{0, 2, 1}));
  EXPECT_EQ(loop_order(std::array{age, label, path}), (Order{0, 1, 2})) << "no image: as they stand";
  EXPECT_TRUE(loop_order({}).empty());
}

}  // namespace
}  // namespace dlpipe::data
