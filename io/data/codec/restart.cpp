#include "io/data/codec/restart.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/jpeg_blocks.h"
#include "io/data/codec/coef/record.h"
#include "io/data/codec/jpeg.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kName = "dlrst1";
constexpr size_t kSegmentBegin = 4;  // SOI and the marker
// After the segment's length and name: u16 MCUs per interval, u16 intervals per row of MCUs, u32 position of the scan's data
// and u32 position of the frame's height, both counted from the segment's end; then for each row of MCUs a u32, where it begins
// in the scan's data, and the lengths of its intervals (coef::put_length).
constexpr size_t kFixedBytes = 2 + kName.size() + 2 + 2 + 4 + 4;
constexpr size_t kMaxSegment = 65'535;
constexpr int kLeastInterval = 4;  // MCUs: shorter ones cost bytes and save little
constexpr int kSurroundings = 2;   // pixels around a region that upsampling reads

Status bad_index(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] restart index: ", what, "; ingest the file again"));
}

/// MCUs per interval: divides the MCUs of a row, so that no interval extends over two rows.
int choose_interval(int mcus_a_row, int rows) {
  for (int interval = 1; interval <= mcus_a_row; ++interval) {
    const bool divides = mcus_a_row % interval == 0;
    const int64_t bytes = int64_t{rows} * (4 + 2 * (mcus_a_row / interval));
    if (divides && interval >= std::min(kLeastInterval, mcus_a_row) &&
        bytes < static_cast<int64_t>(kMaxSegment - kFixedBytes))
      return interval;
  }
  return 0;
}

/// Positions in a file that libjpeg has just written.
struct Places {
  size_t height = 0;  // of the frame header
  size_t scan = 0;
};
Result<Places> find_places(Bytes jpeg) {
  Places places;
  JpegSegments segments(jpeg);
  for (JpegSegments::Segment segment; segments.next(&segment);) {
    if (segment.marker >= 0xc0 && segment.marker <= 0xc2) places.height = segment.begin + 5;
    if (segment.marker != JpegSegments::kStartOfScan) continue;
    places.scan = segment.end;
    return places;
  }
  return bad_index("the written file has no scan");
}

/// The lengths of all intervals, markers not counted.
std::vector<size_t> interval_lengths(Bytes jpeg, size_t scan) {
  std::vector<size_t> lengths;
  size_t begin = scan;
  for (size_t at = scan; at + 1 < jpeg.size(); ++at) {
    if (load_u8(jpeg, at) != 0xff || load_u8(jpeg, at + 1) == 0) continue;
    lengths.push_back(at - begin);
    begin = at + 2;
    if (load_u8(jpeg, at + 1) == 0xd9) break;
    ++at;
  }
  return lengths;
}

struct Index {
  int interval = 0;   // MCUs
  int per_row = 0;    // intervals
  size_t height = 0;  // absolute positions
  size_t scan = 0;
  size_t rest = 0;  // the file after the segment
  Bytes rows;
};

Result<Index> read_index(Bytes bytes) {
  const size_t length = load_be16(bytes, kSegmentBegin);
  if (length < kFixedBytes || kSegmentBegin + length > bytes.size()) return bad_index("it is truncated");
  Index index;
  const size_t at = kSegmentBegin + 2 + kName.size();
  index.interval = load_le<uint16_t>(bytes, at);
  index.per_row = load_le<uint16_t>(bytes, at + 2);
  index.rest = kSegmentBegin + length;
  index.scan = index.rest + load_le<uint32_t>(bytes, at + 4);
  index.height = index.rest + load_le<uint32_t>(bytes, at + 8);
  index.rows = bytes.subspan(kSegmentBegin + kFixedBytes, length - kFixedBytes);
  if (index.interval < 1 || index.per_row < 1 || index.scan > bytes.size() || index.height + 4 > index.scan ||
      index.height < index.rest + 5)
    return bad_index("its numbers are inconsistent");
  return index;
}

/// The image's geometry from its frame header.
struct Geometry {
  int width = 0;
  int height = 0;
  int mcu_width = 8;
  int mcu_height = 8;
};

Result<Geometry> read_geometry(Bytes bytes, const Index& index) {
  Geometry geometry;
  geometry.height = static_cast<int>(load_be16(bytes, index.height));
  geometry.width = static_cast<int>(load_be16(bytes, index.height + 2));
  const size_t components_at = index.height + 4;
  if (components_at >= index.scan) return bad_index("its frame header is truncated");
  const int components = load_u8(bytes, components_at);
  if (components_at + 1 + 3 * static_cast<size_t>(components) > index.scan)
    return bad_index("its frame header is truncated");
  int h = 1;
  int v = 1;
  for (int c = 0; components > 1 && c < components; ++c) {  // one component alone: an MCU is a block
    const int factors = load_u8(bytes, components_at + 2 + 3 * static_cast<size_t>(c));
    h = std::max(h, factors >> 4);
    v = std::max(v, factors & 15);
  }
  geometry.mcu_width = 8 * h;
  geometry.mcu_height = 8 * v;
  const int mcus = (geometry.width + geometry.mcu_width - 1) / geometry.mcu_width;
  if (geometry.width < 1 || geometry.height < 1 || mcus != int64_t{index.interval} * index.per_row)
    return bad_index("its intervals don't fill the rows");
  return geometry;
}

/// Walks over the rows of the index.
class RowWalker {
 public:
  RowWalker(Bytes rows, int per_row) : rows_(rows), per_row_(per_row) {}
  /// Reads the next row: where interval `first` begins in the scan, and the lengths of the intervals [first, end).
  bool next(int first, int end, size_t* begin, std::vector<uint32_t>* lengths) {
    lengths->clear();
    if (rows_.size() - at_ < sizeof(uint32_t)) return false;
    size_t place = load_le<uint32_t>(rows_, at_);
    at_ += sizeof(uint32_t);
    for (int i = 0; i < per_row_; ++i) {
      uint32_t length = 0;
      if (!coef::read_length(rows_, &at_, &length)) return false;
      if (i < first) place += length + 2;  // and a marker
      if (i >= first && i < end) lengths->push_back(length);
    }
    *begin = place;
    return true;
  }

 private:
  Bytes rows_;
  int per_row_;
  size_t at_ = 0;
};

void append(std::vector<std::byte>& out, Bytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void store_be16(std::byte* to, int value) {
  to[0] = static_cast<std::byte>(value >> 8);
  to[1] = static_cast<std::byte>(value & 255);
}

/// The intervals that hold a region and the pixels around it that upsampling reads.
struct Part {
  int first = 0;  // intervals of a row
  int end = 0;
  int first_row = 0;  // of MCUs
  int end_row = 0;
};

Part part_of(const Geometry& geometry, const Index& index, const Region& region) {
  const int wide = index.interval * geometry.mcu_width;
  const int right = std::min(geometry.width, region.x + region.width + kSurroundings);
  const int bottom = std::min(geometry.height, region.y + region.height + kSurroundings);
  return {std::max(0, region.x - kSurroundings) / wide, (right + wide - 1) / wide,
          std::max(0, region.y - kSurroundings) / geometry.mcu_height,
          (bottom + geometry.mcu_height - 1) / geometry.mcu_height};
}

/// A JPEG of only this part: the file's head with another size, then its intervals, numbered from 0.
Status splice(Bytes bytes, const Index& index, const Geometry& geometry, const Part& part,
              std::vector<std::byte>& out) {
  const int wide = index.interval * geometry.mcu_width;
  out.clear();
  append(out, bytes.first(2));
  append(out, bytes.subspan(index.rest, index.scan - index.rest));
  std::byte* const size = out.data() + 2 + (index.height - index.rest);
  store_be16(size, std::min(geometry.height, part.end_row * geometry.mcu_height) -
                       part.first_row * geometry.mcu_height);
  store_be16(size + 2, std::min(geometry.width, part.end * wide) - part.first * wide);
  RowWalker walker(index.rows, index.per_row);
  std::vector<uint32_t> lengths;
  unsigned number = 0;
  for (int row = 0; row < part.end_row; ++row) {
    size_t begin = 0;
    if (!walker.next(part.first, part.end, &begin, &lengths)) return bad_index("it is truncated");
    if (row < part.first_row) continue;
    begin += index.scan;
    for (const uint32_t length : lengths) {
      if (begin > bytes.size() || length > bytes.size() - begin)
        return bad_index("an interval is outside the file");
      append(out, bytes.subspan(begin, length));
      begin += size_t{length} + 2;
      out.push_back(std::byte{0xff});
      out.push_back(static_cast<std::byte>(0xd0 + (number++ & 7)));
    }
  }
  out.back() = std::byte{0xd9};  // the last marker is the end of the image
  return {};
}

}  // namespace

Result<std::vector<std::byte>> encode_restart(Bytes jpeg, const DecodeLimits& limits) {
  coef::JpegImage image;
  DLPIPE_RETURN_IF_ERROR(coef::read_jpeg(jpeg, limits, image));
  const coef::Frame& frame = image.frame;
  const bool single = frame.components == 1;
  const int mcu_width = single ? 8 : 8 * frame.max_h;
  const int mcu_height = single ? 8 : 8 * frame.max_v;
  const int mcus = (frame.width + mcu_width - 1) / mcu_width;
  const int rows = (frame.height + mcu_height - 1) / mcu_height;
  const int interval = choose_interval(mcus, rows);
  if (interval == 0) return Status(ErrorCode::kUnsupported, "[codec] JPEG too large for a restart index");
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> plain,
                          coef::write_jpeg(frame, image.blocks, coef::metadata_of(jpeg), interval));
  DLPIPE_ASSIGN_OR_RETURN(const Places places, find_places(plain));
  const std::vector<size_t> lengths = interval_lengths(plain, places.scan);
  const int per_row = mcus / interval;
  if (lengths.size() != static_cast<size_t>(per_row) * static_cast<size_t>(rows))
    return Status(ErrorCode::kUnsupported, "[codec] JPEG whose restart markers can't be counted");
  std::vector<std::byte> index;
  append(index, std::as_bytes(std::span(kName)));
  append_le(index, static_cast<uint16_t>(interval));
  append_le(index, static_cast<uint16_t>(per_row));
  append_le(index, static_cast<uint32_t>(places.scan - 2));
  append_le(index, static_cast<uint32_t>(places.height - 2));
  size_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i % static_cast<size_t>(per_row) == 0) append_le(index, static_cast<uint32_t>(begin));
    coef::put_length(lengths[i], index);
    begin += lengths[i] + 2;
  }
  if (index.size() + 2 > kMaxSegment)
    return Status(ErrorCode::kUnsupported, "[codec] JPEG too large for a restart index");
  std::vector<std::byte> out(plain.begin(), plain.begin() + 2);
  out.push_back(std::byte{0xff});
  out.push_back(std::byte{0xeb});
  std::byte length[2];
  store_be16(length, static_cast<int>(index.size() + 2));
  append(out, length);
  append(out, index);
  append(out, Bytes(plain).subspan(2));
  return out;
}

bool has_restart_index(Bytes bytes) {
  return bytes.size() > kSegmentBegin + kFixedBytes && load_u8(bytes, 0) == 0xff &&
         load_u8(bytes, 1) == 0xd8 && load_u8(bytes, 2) == 0xff && load_u8(bytes, 3) == 0xeb &&
         std::memcmp(bytes.data() + kSegmentBegin + 2, kName.data(), kName.size()) == 0;
}

Status RestartDecoder::decode(Bytes bytes, const Region& region, const ImageView& out, JpegDecoder& jpeg) {
  DLPIPE_ASSIGN_OR_RETURN(const Index index, read_index(bytes));
  DLPIPE_ASSIGN_OR_RETURN(const Geometry geometry, read_geometry(bytes, index));
  if (int64_t{region.x} + region.width > geometry.width ||
      int64_t{region.y} + region.height > geometry.height)
    return misuse("codec", "the region is outside the image");
  const Part part = part_of(geometry, index, region);
  const int rows = (geometry.height + geometry.mcu_height - 1) / geometry.mcu_height;
  if (part.first == 0 && part.end == index.per_row && part.first_row == 0 && part.end_row == rows)
    return jpeg.decode(bytes, region, out);
  try {
    DLPIPE_RETURN_IF_ERROR(splice(bytes, index, geometry, part, spliced_));
  } catch (...) {
    return status_from_current_exception("codec");
  }
  const Region inside{region.x - part.first * index.interval * geometry.mcu_width,
                      region.y - part.first_row * geometry.mcu_height, region.width, region.height};
  return jpeg.decode(spliced_, inside, out);
}

}  // namespace dlpipe::data
