#include "tests/pipeline/drawn_dataset.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>

#include "dlpipe/codec.h"
#include "dlpipe/image.h"
#include "dlpipe/random.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/coef/record.h"
#include "io/data/dataset_writer.h"
#include "tests/io/data/codec/jpeg_surgery.h"

namespace dlpipe::pipeline {

namespace {

struct Image {
  int width;
  int height;
  int channels;
  std::vector<uint8_t> pixels;
  ConstImageView view() const {
    return {pixels.data(), width, height, channels, static_cast<ptrdiff_t>(width) * channels};
  }
};

// A gradient, some discs and noise.
Image draw(int64_t sample, int width, int height, int channels) {
  RandomStream rng(77, static_cast<uint64_t>(sample));
  Image image{width, height, channels, {}};
  image.pixels.resize(static_cast<size_t>(width) * height * channels);
  struct Disc {
    int x, y, r;
    uint8_t color[3];
  };
  std::vector<Disc> discs;
  for (int i = 0; i < 5; ++i) {
    discs.push_back({static_cast<int>(rng.below(width)),
                     static_cast<int>(rng.below(height)),
                     static_cast<int>(rng.below(width / 2) + 1),
                     {static_cast<uint8_t>(rng.below(256)), static_cast<uint8_t>(rng.below(256)),
                      static_cast<uint8_t>(rng.below(256))}});
  }
  size_t at = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Disc* top = nullptr;
      for (const Disc& disc : discs) {
        const int dx = x - disc.x;
        const int dy = y - disc.y;
        if (dx * dx + dy * dy < disc.r * disc.r) top = &disc;
      }
      for (int c = 0; c < channels; ++c) {
        int value = top != nullptr ? top->color[c] : (x * 255 / width + y * (c + 1) * 120 / height) / 2;
        value += static_cast<int>(rng.below(17)) - 8;
        image.pixels[at++] = static_cast<uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
  return image;
}

// An APP1 segment with one EXIF entry, the orientation (CIPA DC-008), behind the JPEG's start marker.
std::vector<std::byte> with_exif(const std::vector<std::byte>& jpeg, Orientation orientation) {
  const uint8_t segment[] = {0xff, 0xe1, 0, 34, 'E', 'x',         'i', 'f', 0,    0,    'M', 'M',
                             0,    42,   0, 0,  0,   8,           0,   1,   0x01, 0x12, 0,   3,
                             0,    0,    0, 1,  0,   orientation, 0,   0,   0,    0,    0,   0};
  constexpr size_t kMarker = 2;
  std::vector<std::byte> out(jpeg.size() + sizeof segment);
  std::memcpy(out.data(), jpeg.data(), kMarker);
  std::memcpy(out.data() + kMarker, segment, sizeof segment);
  std::memcpy(out.data() + kMarker + sizeof segment, jpeg.data() + kMarker, jpeg.size() - kMarker);
  return out;
}

struct Encoded {
  std::vector<std::byte> bytes;
  data::RecordHeader header;
  data::PixelSums sums;  // of a grey dataset
};

// Fields that ask for more bits than any tile has.
void damage_tiles(std::vector<std::byte>& bytes) {
  const auto record = value_or_throw(data::coef::parse_record(bytes));
  for (int row = 0; row < record.frame.mcu_rows; ++row) {
    data::coef::RowTiles tiles(record.frame, row, value_or_throw(record.row(row)));
    for (data::coef::RowTiles::Tile tile; tiles.next(&tile);)
      std::memset(bytes.data() + (tile.bytes.data() - bytes.data()), 0xff, tile.bytes.size());
  }
}

void as_coefficients(int64_t sample, const DrawnOptions& options, Encoded& encoded) {
  if (options.jpegs.contains(sample)) {
    encoded.header.layout = data::ImageLayout::kJpeg;
    return;
  }
  const data::TileKind tiles = options.coded.contains(sample) ? data::kDenseTiles : data::kFastTiles;
  encoded.bytes = value_or_throw(data::encode_coefficients(encoded.bytes, {}, tiles));
  if (options.damaged.contains(sample)) damage_tiles(encoded.bytes);
}

Encoded encode(int64_t sample, const DrawnOptions& options) {
  RandomStream rng(78, static_cast<uint64_t>(sample));
  const bool varied = options.size == 0;
  const int times = options.large.contains(sample) ? 12 : 1;
  const int width = times * (varied ? static_cast<int>(40 + rng.below(150)) : options.size);
  const int height = times * (varied ? static_cast<int>(40 + rng.below(150)) : options.size);
  const int channels = (varied && rng.below(4) == 0) || options.grey ? 1 : 3;
  const Image image = draw(sample, width, height, channels);
  Encoded encoded;
  encoded.header.layout = options.layout;
  encoded.header.channels = static_cast<uint8_t>(channels);
  if (options.grey) encoded.sums.add_image(image.view());
  switch (options.layout) {
    case data::ImageLayout::kRaw:
      encoded.bytes = data::encode_raw(image.view());
      break;
    case data::ImageLayout::kPng:
      encoded.bytes = value_or_throw(data::encode_png(image.view()));
      break;
    default:
      encoded.bytes = value_or_throw(data::encode_jpeg(image.view(), 85, rng.below(2) == 0));
      if (varied && rng.below(3) == 0) {
        encoded.header.orientation = static_cast<Orientation>(2 + rng.below(7));
        encoded.bytes = with_exif(encoded.bytes, encoded.header.orientation);
      }
      if (options.layout == data::ImageLayout::kCoefficients) as_coefficients(sample, options, encoded);
  }
  const bool swapped = swaps_axes(encoded.header.orientation);
  encoded.header.width = swapped ? height : width;
  encoded.header.height = swapped ? width : height;
  if (options.without_huffman.contains(sample))
    encoded.bytes = data::without_segments(encoded.bytes, data::kHuffmanTables);
  if (options.without_quantisation.contains(sample))
    encoded.bytes = data::without_segments(encoded.bytes, data::kQuantisationTables);
  if (options.truncated.contains(sample)) encoded.bytes.resize(encoded.bytes.size() / 2);
  if (options.too_wide.contains(sample)) encoded.header.width *= 2;
  if (options.no_width.contains(sample)) encoded.header.width = 0;
  if (options.huge.contains(sample)) encoded.header.width = encoded.header.height = 65'535;
  return encoded;
}

}  // namespace

DrawnObjects drawn_objects(int64_t sample, int width, int height) {
  RandomStream rng(79, static_cast<uint64_t>(sample));
  const auto x = [&] { return static_cast<float>(width) * rng.uniform(); };
  const auto y = [&] { return static_cast<float>(height) * rng.uniform(); };
  DrawnObjects objects;
  for (int64_t i = 0; i < sample % 4; ++i) {
    const float a = x(), b = x(), c = y(), d = y();
    objects.boxes.insert(objects.boxes.end(),
                         {std::min(a, b), std::min(c, d), std::max(a, b), std::max(c, d)});
    objects.kinds.push_back((sample + i) % 3);
    objects.scores.push_back(static_cast<float>(i) + 0.5F);
    for (int point = 0; point < 2; ++point)
      objects.joints.insert(objects.joints.end(), {x(), y(), static_cast<float>(point)});
  }
  for (int64_t i = 0; i < sample % 3; ++i) {
    objects.tags.push_back(i);
    objects.spots.insert(objects.spots.end(), {x(), y(), 1});
  }
  objects.caption = sample % 5 == 0 ? "" : "sample " + std::to_string(sample);
  return objects;
}

std::vector<uint8_t> drawn_mask(int64_t sample, int width, int height) {
  std::vector<uint8_t> mask;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) mask.push_back(static_cast<uint8_t>((x / 7 + y / 5 * 3 + sample) % 7));
  }
  return mask;
}

static std::vector<std::byte> encoded_mask(int64_t sample, int width, int height) {
  if (sample % 10 == 4) return {};
  const std::vector<uint8_t> mask = drawn_mask(sample, width, height);
  return value_or_throw(data::encode_png({mask.data(), width, height, 1, width}));
}

void write_drawn_dataset(const std::string& directory, const DrawnOptions& options) {
  std::filesystem::create_directories(directory);
  data::Schema schema;
  schema.fields = {{"image", data::FieldKind::kImage, DType::kU8, {}},
                   {"label", data::FieldKind::kLabel, DType::kI64, {}},
                   {"path", data::FieldKind::kBytes, DType::kU8, {}}};
  if (options.tensor_field) schema.fields.push_back({"meta", data::FieldKind::kTensor, DType::kF32, {3}});
  if (options.object_fields) {
    using Kind = data::FieldKind;
    const std::vector<data::Field> more = {{"boxes", Kind::kBoxes, DType::kF32, {4}},
                                           {"kinds", Kind::kLabels, DType::kI64, {}, "boxes"},
                                           {"scores", Kind::kTensor, DType::kF32, {}, "boxes"},
                                           {"joints", Kind::kPoints, DType::kF32, {2, 3}, "boxes"},
                                           {"tags", Kind::kLabels, DType::kI64, {}},
                                           {"spots", Kind::kPoints, DType::kF32, {3}},
                                           {"caption", Kind::kBytes, DType::kU8, {}}};
    schema.fields.insert(schema.fields.end(), more.begin(), more.end());
  }
  if (options.mask_field) schema.fields.push_back({"mask", data::FieldKind::kMask, DType::kU8, {}});
  schema.classes = {"a", "b", "c"};
  schema.records_per_value = options.records_per_value;
  schema.zstd = options.zstd;
  auto writer = value_or_throw(data::DatasetWriter::open(directory, schema, uint64_t{1} << 30));
  data::RecordPacker packer(schema);
  for (int64_t sample = 0; sample < options.count; ++sample) {
    Encoded encoded = encode(sample, options);
    const int64_t label = options.unlabelled ? -1 : sample % 3;
    encoded.header.label = label;
    const std::string path = "drawn/" + std::to_string(sample);
    const float meta[3] = {static_cast<float>(sample), 2.0f * static_cast<float>(sample), -1.0f};
    std::vector<std::span<const std::byte>> values = {encoded.bytes, std::as_bytes(std::span(&label, 1)),
                                                      std::as_bytes(std::span(path))};
    if (options.tensor_field) values.push_back(std::as_bytes(std::span(meta)));
    const DrawnObjects objects = drawn_objects(sample, encoded.header.width, encoded.header.height);
    if (options.object_fields) {
      const auto add = [&](const auto& more) { values.push_back(std::as_bytes(std::span(more))); };
      add(objects.boxes);
      add(objects.kinds);
      add(objects.scores);
      add(objects.joints);
      add(objects.tags);
      add(objects.spots);
      add(objects.caption);
    }
    std::vector<std::byte> mask;
    if (options.mask_field) {
      const int shift = options.wrong_masks.contains(sample) ? 1 : 0;
      mask = encoded_mask(sample, encoded.header.width + shift, encoded.header.height);
      values.push_back(mask);
    }
    data::PackedRecord record = value_or_throw(packer.pack(values, encoded.header));
    record.pixel_sums = encoded.sums;
    throw_if_error(writer->add(std::move(record)));
  }
  throw_if_error(writer->finish(static_cast<uint64_t>(options.count)));
}

void flip_bit(const std::string& directory, int64_t sample) {
  const std::string path = directory + "/data.mdb";
  std::string file;
  {
    std::ifstream in(path, std::ios::binary);
    file = {std::istreambuf_iterator<char>(in), {}};
  }
  std::string record;
  {
    const auto dataset = value_or_throw(data::Dataset::open(directory));
    const auto reader = value_or_throw(dataset->reader());
    const auto bytes = value_or_throw(reader->record(sample));
    record.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const size_t at = file.find(record);
  if (at == std::string::npos) throw std::runtime_error("record not found in " + path);
  file[at + record.size() / 2] = static_cast<char>(file[at + record.size() / 2] ^ 0x10);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << file;
}

}  // namespace dlpipe::pipeline
