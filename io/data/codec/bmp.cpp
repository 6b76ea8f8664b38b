#include "dlpipe/io/data/codec/bmp.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kFileHeader = 14;

/// What the headers say, checked.
struct Bmp {
  int width = 0;
  int height = 0;
  bool from_top = false;
  uint32_t bits = 0;
  size_t pixels = 0;     // where they begin
  size_t row_bytes = 0;  // with what fills up four bytes
  std::array<uint8_t, 3 * 256> palette{};
  bool is_grey = false;
  std::array<uint32_t, 3> masks{};  // red, green, blue of 16 and 32 bits
};

Status damaged(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] damaged BMP: ", what));
}

Status unsupported(std::string_view what) {
  return Status(ErrorCode::kUnsupported,
                concat("[codec] BMP ", what, " is not supported; convert it to PNG"));
}

Status read_palette(Bytes bytes, size_t at, size_t entry_bytes, size_t colors, Bmp& bmp) {
  const size_t most = size_t{1} << bmp.bits;
  if (colors == 0) colors = most;
  if (colors > most || at + colors * entry_bytes > bmp.pixels) return damaged("its palette has no room");
  bmp.is_grey = true;
  for (size_t i = 0; i < colors; ++i) {
    for (size_t c = 0; c < 3; ++c) bmp.palette[3 * i + c] = load_u8(bytes, at + i * entry_bytes + 2 - c);
    const uint8_t* const one = bmp.palette.data() + 3 * i;
    bmp.is_grey = bmp.is_grey && one[0] == one[1] && one[1] == one[2];
  }
  return {};
}

Status read_masks(Bytes bytes, size_t header, uint32_t compression, Bmp& bmp) {
  constexpr uint32_t kBitFields = 3;
  constexpr size_t kMasks = kFileHeader + 40;
  bmp.masks = bmp.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x3e0, 0x1f}
                             : std::array<uint32_t, 3>{0xff0000, 0xff00, 0xff};
  if (compression != kBitFields) return {};
  if (header < 40 || bytes.size() < kMasks + 12) return damaged("its colour masks are cut short");
  for (size_t c = 0; c < 3; ++c) {
    bmp.masks[c] = load_le<uint32_t>(bytes, kMasks + 4 * c);
    const uint32_t mask = bmp.masks[c];
    const uint32_t low = mask & (~mask + 1);
    if (mask == 0 || ((mask + low) & mask) != 0 || mask / low < 15 || mask / low > 255)
      return unsupported("with unusual colour masks");
  }
  return {};
}

Result<Bmp> parse(Bytes bytes) {
  if (bytes.size() < kFileHeader + 12) return damaged("it is cut short");
  Bmp bmp;
  bmp.pixels = load_le<uint32_t>(bytes, 10);
  const size_t header = load_le<uint32_t>(bytes, kFileHeader);
  const bool is_old = header == 12;
  if (!is_old && (header < 40 || header > 124 || bytes.size() < kFileHeader + header))
    return damaged("an impossible header");
  const auto at = [&](size_t offset) { return kFileHeader + offset; };
  const int64_t width = is_old ? load_le<uint16_t>(bytes, at(4)) : load_le<int32_t>(bytes, at(4));
  const int64_t height = is_old ? load_le<uint16_t>(bytes, at(6)) : load_le<int32_t>(bytes, at(8));
  bmp.bits = load_le<uint16_t>(bytes, at(is_old ? 10 : 14));
  const uint32_t compression = is_old ? 0 : load_le<uint32_t>(bytes, at(16));
  bmp.from_top = height < 0;
  if (width < 1 || height == 0 || width > 0x7fffffff || std::abs(height) > 0x7fffffff)
    return damaged("an impossible width or height");
  bmp.width = static_cast<int>(width);
  bmp.height = static_cast<int>(std::abs(height));
  constexpr std::array kBits = {1u, 4u, 8u, 16u, 24u, 32u};
  if (std::find(kBits.begin(), kBits.end(), bmp.bits) == kBits.end()) return damaged("an impossible depth");
  const bool fields = compression == 3 && bmp.bits >= 16 && bmp.bits != 24;
  if (compression != 0 && !fields) return unsupported("with compression");
  const uint64_t row = (static_cast<uint64_t>(width) * bmp.bits + 31) / 32 * 4;
  if (bmp.pixels > bytes.size() || row > (bytes.size() - bmp.pixels) / static_cast<uint64_t>(bmp.height))
    return damaged("it has fewer pixels than its header says");
  bmp.row_bytes = row;
  if (bmp.bits <= 8) {
    const size_t colors = is_old ? 0 : load_le<uint32_t>(bytes, at(32));
    DLPIPE_RETURN_IF_ERROR(read_palette(bytes, at(header), is_old ? 3 : 4, colors, bmp));
  } else if (bmp.bits != 24) {
    DLPIPE_RETURN_IF_ERROR(read_masks(bytes, header, compression, bmp));
  }
  return bmp;
}

/// `count` pixels from `x` on of a stored row, as RGB.
void read_row(const Bmp& bmp, Bytes row, int x, int count, uint8_t* rgb) {
  for (int i = 0; i < count; ++i, rgb += 3) {
    const size_t at = static_cast<size_t>(x) + static_cast<size_t>(i);
    if (bmp.bits == 24) {
      for (size_t c = 0; c < 3; ++c) rgb[c] = load_u8(row, 3 * at + 2 - c);
      continue;
    }
    if (bmp.bits <= 8) {
      const size_t per_byte = 8 / bmp.bits;
      const size_t shift = (per_byte - 1 - at % per_byte) * bmp.bits;
      const size_t index = load_u8(row, at / per_byte) >> shift & ((1u << bmp.bits) - 1);
      std::memcpy(rgb, bmp.palette.data() + 3 * index, 3);
      continue;
    }
    const uint32_t value = bmp.bits == 16 ? load_le<uint16_t>(row, 2 * at) : load_le<uint32_t>(row, 4 * at);
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t low = bmp.masks[c] & (~bmp.masks[c] + 1);
      rgb[c] = static_cast<uint8_t>((value & bmp.masks[c]) / low * 255 / (bmp.masks[c] / low));
    }
  }
}

}  // namespace

bool is_bmp(Bytes bytes) {
  return bytes.size() >= 2 && load_u8(bytes, 0) == 'B' && load_u8(bytes, 1) == 'M';
}

Result<ImageInfo> probe_bmp(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const Bmp bmp, parse(bytes));
  ImageInfo info;
  info.layout = ImageLayout::kBmp;
  info.width = bmp.width;
  info.height = bmp.height;
  info.channels = bmp.is_grey ? 1 : 3;
  return info;
}

Status decode_bmp(Bytes bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const Bmp bmp, parse(bytes));
  if (region.x > bmp.width - region.width || region.y > bmp.height - region.height)
    return misuse("codec", "region outside the picture");
  std::vector<uint8_t> rgb;
  try {
    rgb.resize(3 * static_cast<size_t>(region.width));
  } catch (...) {
    return status_from_current_exception("codec");
  }
  for (int y = 0; y < region.height; ++y) {
    const int seen = region.y + y;
    const auto stored = static_cast<size_t>(bmp.from_top ? seen : bmp.height - 1 - seen);
    const Bytes row = bytes.subspan(bmp.pixels + stored * bmp.row_bytes, bmp.row_bytes);
    read_row(bmp, row, region.x, region.width, rgb.data());
    convert_row(rgb.data(), 3, out.row(y), out.channels, region.width);
  }
  return {};
}

}  // namespace dlpipe::data
