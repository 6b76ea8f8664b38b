#include "io/data/record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/checksum.h"

namespace dlpipe::data {

void PixelSums::add(const PixelSums& other) {
  pixels += other.pixels;
  color_pixels += other.color_pixels;
  for (size_t c = 0; c < sum.size(); ++c) {
    sum[c] += other.sum[c];
    sum_of_squares[c] += other.sum_of_squares[c];
  }
}

namespace {

/// Sums of each of `kLanes` bytes in a row, which compilers turn into vectors; lane i is channel i % kChannels.
template <int kChannels>
class LaneSums {
 public:
  explicit LaneSums(PixelSums& sums) : sums_(sums) {}
  ~LaneSums() { flush(); }
  LaneSums(const LaneSums&) = delete;
  LaneSums& operator=(const LaneSums&) = delete;

  void add_row(const uint8_t* row, int width) {
    for (auto left = static_cast<size_t>(width) * kChannels; left > 0;) {
      const size_t piece = std::min(left, kLanes * (kMostAdded - 1));
      add_piece(row, piece);
      row += piece;
      left -= piece;
    }
  }

 private:
  static constexpr size_t kLanes = 48;
  static constexpr size_t kMostAdded =
      1 << 15;  // values to a lane between flushes: twice as many squares would fit

  void add_piece(const uint8_t* row, size_t count) {
    const size_t added = count / kLanes + 1;
    if (added_ + added > kMostAdded) flush();
    added_ += added;
    const size_t whole = count - count % kLanes;
    for (size_t at = 0; at < whole; at += kLanes) {
      for (size_t i = 0; i < kLanes; ++i) add(i, row[at + i]);
    }
    for (size_t i = 0; whole + i < count; ++i) add(i, row[whole + i]);
  }
  void add(size_t lane, uint8_t value) {
    sum_[lane] += value;
    squares_[lane] += static_cast<uint16_t>(value * value);
  }
  void flush() {
    for (size_t i = 0; i < kLanes; ++i) {
      for (size_t c = 0; c < 3; ++c) {
        if (kChannels == 3 && i % 3 != c) continue;
        sums_.sum[c] += sum_[i];
        sums_.sum_of_squares[c] += squares_[i];
      }
    }
    sum_ = squares_ = {};
    added_ = 0;
  }

  PixelSums& sums_;
  std::array<uint32_t, kLanes> sum_{};
  std::array<uint32_t, kLanes> squares_{};
  size_t added_ = 0;
};

template <int kChannels>
void add_rows(const ConstImageView& image, PixelSums& sums) {
  LaneSums<kChannels> lanes(sums);
  for (int y = 0; y < image.height; ++y) lanes.add_row(image.row(y), image.width);
}

}  // namespace

void PixelSums::add_image(const ConstImageView& image) {
  const uint64_t count = static_cast<uint64_t>(image.width) * image.height;
  pixels += count;
  if (image.channels == 3) color_pixels += count;
  if (image.channels == 3) {
    add_rows<3>(image, *this);
  } else {
    add_rows<1>(image, *this);
  }
}

PixelStats PixelStats::of_channels(int wanted) const {
  if (channels == 0 || wanted < 1 || wanted == channels) return *this;
  PixelStats stats;
  stats.channels = wanted;
  if (channels == 1) {
    std::fill_n(stats.mean.begin(), wanted, mean[0]);
    std::fill_n(stats.std.begin(), wanted, std[0]);
    return stats;
  }
  constexpr std::array<double, 3> kLuma = {0.299, 0.587, 0.114};  // ITU-R BT.601
  for (size_t c = 0; c < kLuma.size(); ++c) {
    stats.mean[0] += kLuma[c] * mean[c];
    stats.std[0] += kLuma[c] * std[c];
  }
  return stats;
}

PixelStats PixelSums::stats() const {
  PixelStats stats;
  if (pixels == 0) return stats;
  stats.channels = color_pixels > 0 ? 3 : 1;
  for (int c = 0; c < stats.channels; ++c) {
    const double mean = static_cast<double>(sum[c]) / static_cast<double>(pixels);
    const double mean_square = static_cast<double>(sum_of_squares[c]) / static_cast<double>(pixels);
    stats.mean[c] = mean / 255.0;
    stats.std[c] = std::sqrt(std::max(0.0, mean_square - mean * mean)) / 255.0;
  }
  return stats;
}

RecordLayout::RecordLayout(std::span<const Field> fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    Place place;
    if (const auto bytes = fixed_field_bytes(fields[i]); bytes.has_value()) {
      place = {true, fixed_bytes_, *bytes, 0};
      fixed_bytes_ += *bytes;
    } else {
      place.index = varying_++;
    }
    places_.push_back(place);
    if (fields[i].kind == FieldKind::kImage && image_field_ < 0) image_field_ = static_cast<int>(i);
    if (fields[i].kind == FieldKind::kLabel && label_field_ < 0) label_field_ = static_cast<int>(i);
  }
}

Result<RecordLayout::Head> RecordLayout::head(std::span<const std::span<const std::byte>> values,
                                              std::optional<uint64_t> image_bytes) const {
  if (values.size() != places_.size())
    return misuse("dataset", "a record has ", values.size(), " fields instead of ", places_.size());
  Head head{std::vector<std::byte>(least_bytes()), least_bytes()};
  for (size_t i = 0; i < values.size(); ++i) {
    const Place& place = places_[i];
    if (place.fixed && values[i].size() != place.bytes)
      return misuse("dataset", "field ", i, " has ", values[i].size(), " bytes, but its schema needs ",
                    place.bytes);
    if (place.fixed) {
      std::memcpy(head.bytes.data() + place.at, values[i].data(), values[i].size());
      continue;
    }
    const bool is_image = static_cast<int>(i) == image_field_;
    head.record_bytes += is_image ? image_bytes.value_or(values[i].size()) : values[i].size();
    if (head.record_bytes > std::numeric_limits<uint32_t>::max())
      return Status(ErrorCode::kUnsupported, "[dataset] a record is larger than 4 GB; split it");
    store_le(head.bytes.data() + fixed_bytes_ + 4 * place.index, static_cast<uint32_t>(head.record_bytes));
  }
  return head;
}

Result<std::vector<std::byte>> RecordLayout::build(std::span<const std::span<const std::byte>> values) const {
  DLPIPE_ASSIGN_OR_RETURN(Head head, this->head(values));
  std::vector<std::byte> record = std::move(head.bytes);
  record.reserve(head.record_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!places_[i].fixed) record.insert(record.end(), values[i].begin(), values[i].end());
  }
  return record;
}

Result<RecordLayout::Summary> RecordLayout::summary(
    std::span<const std::span<const std::byte>> values) const {
  DLPIPE_ASSIGN_OR_RETURN(const Head head, this->head(values));
  std::vector<std::span<const std::byte>> pieces = {head.bytes};
  for (size_t i = 0; i < values.size(); ++i) {
    if (!places_[i].fixed) pieces.push_back(values[i]);
  }
  return Summary{static_cast<uint32_t>(head.record_bytes), checksum64_of_pieces(pieces)};
}

Result<RecordLayout::Summary> RecordLayout::late_summary(std::span<const std::span<const std::byte>> values,
                                                         uint64_t image_bytes) const {
  DLPIPE_ASSIGN_OR_RETURN(const Head head, this->head(values, image_bytes));
  std::vector<std::span<const std::byte>> pieces = {head.bytes};
  for (size_t i = 0; i < values.size(); ++i) {
    if (places_[i].fixed) continue;
    const bool is_image = static_cast<int>(i) == image_field_;
    pieces.push_back(is_image ? values[i].first(std::min(values[i].size(), kLateBegin)) : values[i]);
  }
  return Summary{static_cast<uint32_t>(head.record_bytes), checksum64_of_pieces(pieces)};
}

Result<uint64_t> RecordLayout::begin_checksum(std::span<const std::byte> record) const {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> image,
                          field(record, static_cast<size_t>(image_field_)));
  const auto at = static_cast<size_t>(image.data() - record.data());
  const std::span<const std::byte> pieces[] = {record.first(at + std::min(image.size(), kLateBegin)),
                                               record.subspan(at + image.size())};
  return checksum64_of_pieces(pieces);
}

Result<std::span<const std::byte>> RecordLayout::field(std::span<const std::byte> record,
                                                       size_t index) const {
  const Place& place = places_[index];
  const size_t head = fixed_bytes_ + 4 * varying_;
  if (record.size() < head) return Status(ErrorCode::kCorrupt, "[dataset] record is truncated");
  if (place.fixed) return record.subspan(place.at, place.bytes);
  const size_t ends = fixed_bytes_;
  const size_t begin = place.index == 0 ? head : load_le<uint32_t>(record, ends + 4 * (place.index - 1));
  const size_t end = load_le<uint32_t>(record, ends + 4 * place.index);
  const bool last = place.index + 1 == varying_;
  if (begin < head || end < begin || end > record.size() || (last && end != record.size()))
    return Status(ErrorCode::kCorrupt, "[dataset] record's field offsets are inconsistent");
  return record.subspan(begin, end - begin);
}

RecordPacker::RecordPacker(const Schema& schema)
    : fields_(schema.fields),
      layout_(schema.fields),
      zstd_(schema.zstd),
      late_checksums_(schema.late_checksums) {}

Result<PackedRecord> RecordPacker::pack(std::span<const std::span<const std::byte>> values,
                                        const RecordHeader& header, std::span<const std::byte> link,
                                        uint64_t image_bytes) {
  PackedRecord packed;
  packed.header = header;
  const int label = layout_.label_field();
  RecordLayout::Summary summary;
  if (!link.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(
        summary, late_checksums_ ? layout_.late_summary(values, image_bytes) : layout_.summary(values));
    std::vector<std::span<const std::byte>> linked(values.begin(), values.end());
    linked.at(static_cast<size_t>(layout_.image_field())) = link;
    DLPIPE_ASSIGN_OR_RETURN(packed.stored, layout_.build(linked));
  } else {
    DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> record, layout_.build(values));
    summary = {static_cast<uint32_t>(record.size()), checksum64(record)};
    if (zstd_) {
      DLPIPE_RETURN_IF_ERROR(compressor_.compress(record, packed.stored));
    } else {
      packed.stored = std::move(record);
    }
  }
  DLPIPE_RETURN_IF_ERROR(check_values(fields_, values, -1));
  packed.header.size_bytes = summary.size_bytes;
  packed.header.checksum = summary.checksum;
  if (const int image = layout_.image_field(); image >= 0) {
    const std::span<const std::byte> bytes = values[static_cast<size_t>(image)];
    packed.image_checksum = late_checksums_
                                ? checksum64(bytes.first(std::min(bytes.size(), kLateBegin)), image_bytes)
                                : checksum64(bytes);
  }
  if (label >= 0) packed.header.label = load_le<int64_t>(values[static_cast<size_t>(label)], 0);
  return packed;
}

}  // namespace dlpipe::data
