#include "io/data/codec/bitmaps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/codec/pixels.h"

namespace dlpipe::data {

using Bytes = std::span<const std::byte>;

// 0 magic (8 bytes), 8 u32 width, 12 u32 height, 16 u32 channels, 20 pixels.
Result<ImageInfo> probe_raw(Bytes bytes) {
  if (bytes.size() < kRawHeaderBytes)
    return Status(ErrorCode::kCorrupt, "[codec] the raw image is truncated; the record is corrupt");
  const auto width = load_le<uint32_t>(bytes, 8);
  const auto height = load_le<uint32_t>(bytes, 12);
  const auto channels = load_le<uint32_t>(bytes, 16);
  const bool has_size = width >= 1 && width <= 0x7fffffffu && height >= 1 && height <= 0x7fffffffu;
  if (!has_size || (channels != 1 && channels != 3)) {
    return Status(ErrorCode::kCorrupt,
                  concat("[codec] raw image header declares ", width, "x", height, "x", channels,
                         ", which is not a valid size; the record is corrupt"));
  }
  // width * height fits 62 bits, so the product with 3 does not wrap.
  if (uint64_t{width} * height * channels != bytes.size() - kRawHeaderBytes) {
    return Status(ErrorCode::kCorrupt,
                  concat("[codec] raw image header declares ", width, "x", height, "x", channels, ", but ",
                         bytes.size() - kRawHeaderBytes, " bytes follow; the record is corrupt"));
  }
  ImageInfo info;
  info.layout = ImageLayout::kRaw;
  info.width = static_cast<int>(width);
  info.height = static_cast<int>(height);
  info.channels = static_cast<int>(channels);
  return info;
}

Status decode_raw(Bytes bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_raw(bytes));
  if (region.x > info.width - region.width || region.y > info.height - region.height)
    return misuse("codec", "the region is outside the raw image");
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data()) + kRawHeaderBytes;
  for (int y = 0; y < region.height; ++y) {
    const size_t at = (static_cast<size_t>(region.y + y) * info.width + region.x) * info.channels;
    convert_row(pixels + at, info.channels, out.row(y), out.channels, region.width);
  }
  return {};
}

std::vector<std::byte> encode_raw(const ConstImageView& image) {
  const size_t row_bytes = static_cast<size_t>(image.width) * image.channels;
  std::vector<std::byte> bytes(kRawHeaderBytes + row_bytes * image.height);
  std::memcpy(bytes.data(), kRawMagic.data(), kRawMagic.size());
  store_le(bytes.data() + 8, static_cast<uint32_t>(image.width));
  store_le(bytes.data() + 12, static_cast<uint32_t>(image.height));
  store_le(bytes.data() + 16, static_cast<uint32_t>(image.channels));
  for (int y = 0; y < image.height; ++y)
    std::memcpy(bytes.data() + kRawHeaderBytes + row_bytes * y, image.row(y), row_bytes);
  return bytes;
}

namespace {

constexpr size_t kFileHeader = 14;

/// The checked contents of the headers.
struct Bmp {
  int width = 0;
  int height = 0;
  bool from_top = false;
  uint32_t bits = 0;
  size_t pixels = 0;     // where they begin
  size_t row_bytes = 0;  // padded to a multiple of four bytes
  std::array<uint8_t, 3 * 256> palette{};
  bool is_grey = false;
  std::array<uint32_t, 3> masks{};  // red, green, blue of 16 and 32 bits
};

Status damaged_bmp(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] corrupt BMP: ", what));
}

Status unsupported(std::string_view what) {
  return Status(ErrorCode::kUnsupported,
                concat("[codec] BMP ", what, " is not supported; convert it to PNG"));
}

Status read_palette(Bytes bytes, size_t at, size_t entry_bytes, size_t colors, Bmp& bmp) {
  const size_t most = size_t{1} << bmp.bits;
  if (colors == 0) colors = most;
  if (colors > most || at + colors * entry_bytes > bmp.pixels) return damaged_bmp("its palette does not fit");
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
  if (header < 40 || bytes.size() < kMasks + 12) return damaged_bmp("its colour masks are truncated");
  for (size_t c = 0; c < 3; ++c) {
    bmp.masks[c] = load_le<uint32_t>(bytes, kMasks + 4 * c);
    const uint32_t mask = bmp.masks[c];
    const uint32_t low = mask & (~mask + 1);
    if (mask == 0 || ((mask + low) & mask) != 0 || mask / low < 15 || mask / low > 255)
      return unsupported("with unusual colour masks");
  }
  return {};
}

Result<Bmp> parse_bmp(Bytes bytes) {
  if (bytes.size() < kFileHeader + 12) return damaged_bmp("it is truncated");
  Bmp bmp;
  bmp.pixels = load_le<uint32_t>(bytes, 10);
  const size_t header = load_le<uint32_t>(bytes, kFileHeader);
  const bool is_old = header == 12;
  if (!is_old && (header < 40 || header > 124 || bytes.size() < kFileHeader + header))
    return damaged_bmp("an invalid header");
  const auto at = [&](size_t offset) { return kFileHeader + offset; };
  const int64_t width = is_old ? load_le<uint16_t>(bytes, at(4)) : load_le<int32_t>(bytes, at(4));
  const int64_t height = is_old ? load_le<uint16_t>(bytes, at(6)) : load_le<int32_t>(bytes, at(8));
  bmp.bits = load_le<uint16_t>(bytes, at(is_old ? 10 : 14));
  const uint32_t compression = is_old ? 0 : load_le<uint32_t>(bytes, at(16));
  bmp.from_top = height < 0;
  if (width < 1 || height == 0 || width > 0x7fffffff || std::abs(height) > 0x7fffffff)
    return damaged_bmp("an invalid width or height");
  bmp.width = static_cast<int>(width);
  bmp.height = static_cast<int>(std::abs(height));
  constexpr std::array kBits = {1u, 4u, 8u, 16u, 24u, 32u};
  if (std::find(kBits.begin(), kBits.end(), bmp.bits) == kBits.end()) return damaged_bmp("an invalid depth");
  const bool fields = compression == 3 && bmp.bits >= 16 && bmp.bits != 24;
  if (compression != 0 && !fields) return unsupported("with this compression");
  const uint64_t row = (static_cast<uint64_t>(width) * bmp.bits + 31) / 32 * 4;
  if (bmp.pixels > bytes.size() || row > (bytes.size() - bmp.pixels) / static_cast<uint64_t>(bmp.height))
    return damaged_bmp("it has fewer pixels than its header says");
  bmp.row_bytes = row;
  if (bmp.bits <= 8) {
    const size_t colors = is_old ? 0 : load_le<uint32_t>(bytes, at(32));
    DLPIPE_RETURN_IF_ERROR(read_palette(bytes, at(header), is_old ? 3 : 4, colors, bmp));
  } else if (bmp.bits != 24) {
    DLPIPE_RETURN_IF_ERROR(read_masks(bytes, header, compression, bmp));
  }
  return bmp;
}

/// Converts `count` pixels of a stored row, starting at `x`, to RGB.
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
  DLPIPE_ASSIGN_OR_RETURN(const Bmp bmp, parse_bmp(bytes));
  ImageInfo info;
  info.layout = ImageLayout::kBmp;
  info.width = bmp.width;
  info.height = bmp.height;
  info.channels = bmp.is_grey ? 1 : 3;
  return info;
}

Status decode_bmp(Bytes bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const Bmp bmp, parse_bmp(bytes));
  if (region.x > bmp.width - region.width || region.y > bmp.height - region.height)
    return misuse("codec", "the region is outside the image");
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

namespace {

struct Pnm {
  int width = 0;
  int height = 0;
  int channels = 1;
  uint32_t most = 1;     // the largest value of a sample; 1 for bits
  bool is_bits = false;  // 1 is black
  size_t pixels = 0;     // where they begin
  size_t row_bytes = 0;
};

Status damaged_pnm(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] corrupt PNM: ", what));
}

bool is_blank(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// The next number of the header, after blanks and comments; 0 if there is no number.
uint32_t next_number(Bytes bytes, size_t& at) {
  while (at < bytes.size() && (is_blank(load_u8(bytes, at)) || load_u8(bytes, at) == '#')) {
    if (load_u8(bytes, at) == '#') {
      while (at < bytes.size() && load_u8(bytes, at) != '\n') ++at;
    } else {
      ++at;
    }
  }
  uint64_t value = 0;
  for (; at < bytes.size() && load_u8(bytes, at) >= '0' && load_u8(bytes, at) <= '9'; ++at) {
    value = 10 * value + (load_u8(bytes, at) - '0');
    if (value > 0x7fffffff) return 0;
  }
  return static_cast<uint32_t>(value);
}

Result<Pnm> parse_pnm(Bytes bytes) {
  const uint8_t kind = load_u8(bytes, 1);
  if (kind < '4')
    return Status(ErrorCode::kUnsupported,
                  "[codec] text PNM is not supported; convert it to binary PNM or to PNG");
  Pnm pnm;
  pnm.is_bits = kind == '4';
  pnm.channels = kind == '6' ? 3 : 1;
  pnm.pixels = 2;
  const uint32_t width = next_number(bytes, pnm.pixels);
  const uint32_t height = next_number(bytes, pnm.pixels);
  if (!pnm.is_bits) pnm.most = next_number(bytes, pnm.pixels);
  if (width == 0 || height == 0 || pnm.most == 0 || pnm.most > 65'535)
    return damaged_pnm("an invalid header");
  if (pnm.pixels >= bytes.size() || !is_blank(load_u8(bytes, pnm.pixels)))
    return damaged_pnm("it is truncated");
  ++pnm.pixels;
  pnm.width = static_cast<int>(width);
  pnm.height = static_cast<int>(height);
  const uint64_t row = pnm.is_bits
                           ? (uint64_t{width} + 7) / 8
                           : uint64_t{width} * static_cast<uint64_t>(pnm.channels) * (pnm.most > 255 ? 2 : 1);
  if (row > (bytes.size() - pnm.pixels) / height)
    return damaged_pnm("it has fewer pixels than its header says");
  pnm.row_bytes = row;
  return pnm;
}

uint8_t sample_at(const Pnm& pnm, Bytes row, size_t i) {
  if (pnm.is_bits) return (load_u8(row, i / 8) >> (7 - i % 8) & 1) != 0 ? 0 : 255;
  const uint32_t value = pnm.most > 255 ? load_be16(row, 2 * i) : load_u8(row, i);
  if (pnm.most == 255) return static_cast<uint8_t>(value);
  // Computed in doubles, with ties to even, like Pillow's round(value / most * scale).
  const bool is_deep_grey = pnm.channels == 1 && pnm.most > 255;
  const double scale = is_deep_grey ? 65'535 : 255;
  const double scaled = std::min(scale, std::nearbyint(value / static_cast<double>(pnm.most) * scale));
  return static_cast<uint8_t>(static_cast<uint32_t>(scaled) >> (is_deep_grey ? 8 : 0));
}

}  // namespace

bool is_pnm(Bytes bytes) {
  return bytes.size() >= 3 && load_u8(bytes, 0) == 'P' && load_u8(bytes, 1) >= '1' &&
         load_u8(bytes, 1) <= '6' && (is_blank(load_u8(bytes, 2)) || load_u8(bytes, 2) == '#');
}

Result<ImageInfo> probe_pnm(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const Pnm pnm, parse_pnm(bytes));
  ImageInfo info;
  info.layout = ImageLayout::kPnm;
  info.width = pnm.width;
  info.height = pnm.height;
  info.channels = pnm.channels;
  return info;
}

Status decode_pnm(Bytes bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const Pnm pnm, parse_pnm(bytes));
  if (region.x > pnm.width - region.width || region.y > pnm.height - region.height)
    return misuse("codec", "the region is outside the image");
  const auto channels = static_cast<size_t>(pnm.channels);
  std::vector<uint8_t> samples;
  try {
    samples.resize(channels * static_cast<size_t>(region.width));
  } catch (...) {
    return status_from_current_exception("codec");
  }
  for (int y = 0; y < region.height; ++y) {
    const size_t stored = static_cast<size_t>(region.y) + static_cast<size_t>(y);
    const Bytes row = bytes.subspan(pnm.pixels + stored * pnm.row_bytes, pnm.row_bytes);
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i] = sample_at(pnm, row, channels * static_cast<size_t>(region.x) + i);
    convert_row(samples.data(), pnm.channels, out.row(y), out.channels, region.width);
  }
  return {};
}

}  // namespace dlpipe::data
