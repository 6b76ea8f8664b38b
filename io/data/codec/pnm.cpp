#include "dlpipe/io/data/codec/pnm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;

struct Pnm {
  int width = 0;
  int height = 0;
  int channels = 1;
  uint32_t most = 1;     // of a sample; 1 with bits
  bool is_bits = false;  // 1 is black
  size_t pixels = 0;     // where they begin
  size_t row_bytes = 0;
};

Status damaged(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] damaged PNM: ", what));
}

bool is_blank(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// The next number of the header, over blanks and comments; 0 where there is none.
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

Result<Pnm> parse(Bytes bytes) {
  const uint8_t kind = load_u8(bytes, 1);
  if (kind < '4')
    return Status(ErrorCode::kUnsupported,
                  "[codec] PNM in digits is not supported; convert it to binary or to PNG");
  Pnm pnm;
  pnm.is_bits = kind == '4';
  pnm.channels = kind == '6' ? 3 : 1;
  pnm.pixels = 2;
  const uint32_t width = next_number(bytes, pnm.pixels);
  const uint32_t height = next_number(bytes, pnm.pixels);
  if (!pnm.is_bits) pnm.most = next_number(bytes, pnm.pixels);
  if (width == 0 || height == 0 || pnm.most == 0 || pnm.most > 65'535) return damaged("an impossible header");
  if (pnm.pixels >= bytes.size() || !is_blank(load_u8(bytes, pnm.pixels))) return damaged("it is cut short");
  ++pnm.pixels;
  pnm.width = static_cast<int>(width);
  pnm.height = static_cast<int>(height);
  const uint64_t row = pnm.is_bits
                           ? (uint64_t{width} + 7) / 8
                           : uint64_t{width} * static_cast<uint64_t>(pnm.channels) * (pnm.most > 255 ? 2 : 1);
  if (row > (bytes.size() - pnm.pixels) / height) return damaged("it has fewer pixels than its header says");
  pnm.row_bytes = row;
  return pnm;
}

uint8_t sample_at(const Pnm& pnm, Bytes row, size_t i) {
  if (pnm.is_bits) return (load_u8(row, i / 8) >> (7 - i % 8) & 1) != 0 ? 0 : 255;
  const uint32_t value = pnm.most > 255 ? load_be16(row, 2 * i) : load_u8(row, i);
  if (pnm.most == 255) return static_cast<uint8_t>(value);
  // In doubles and with ties to even, as Pillow's round(value / most * scale).
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
  DLPIPE_ASSIGN_OR_RETURN(const Pnm pnm, parse(bytes));
  ImageInfo info;
  info.layout = ImageLayout::kPnm;
  info.width = pnm.width;
  info.height = pnm.height;
  info.channels = pnm.channels;
  return info;
}

Status decode_pnm(Bytes bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const Pnm pnm, parse(bytes));
  if (region.x > pnm.width - region.width || region.y > pnm.height - region.height)
    return misuse("codec", "region outside the picture");
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
