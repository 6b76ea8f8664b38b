// Any bytes as an image: probe, decode whole or in part, to a coefficient record and a restart index and
// back. What decodes must decode to the same pixels from both, and whatever image a decoder had before.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/restart.h"

namespace dlpipe::data {
namespace {

constexpr int64_t kMaxPixels = 1 << 18;

struct Image {
  std::vector<uint8_t> pixels;
  bool ok = false;
};

Image decode(ImageDecoder& decoder, std::span<const std::byte> bytes, const Region& region) {
  Image image;
  image.pixels.resize(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * 3);
  const ImageView view{image.pixels.data(), region.width, region.height, 3, ptrdiff_t{3} * region.width};
  image.ok = decoder.decode(bytes, region, view).ok();
  return image;
}

/// A decoder that has just had another image.
Image decode_after_another(ImageDecoder& decoder, std::span<const std::byte> bytes, const Region& region) {
  static const std::vector<std::byte> another = [] {
    std::vector<uint8_t> pixels(16 * 16 * 3, 90);
    return value_or_throw(encode_jpeg(ConstImageView(pixels.data(), 16, 16, 3, 48), 37));
  }();
  decode(decoder, another, {0, 0, 16, 16});
  return decode(decoder, bytes, region);
}

/// A part of the image that depends on its bytes.
Region some_region(const ImageInfo& info, std::span<const std::byte> bytes) {
  const auto at = [&](size_t i) { return static_cast<int>(bytes[bytes.size() - 1 - i % bytes.size()]); };
  const int width = 1 + at(0) * (info.width - 1) / 255;
  const int height = 1 + at(1) * (info.height - 1) / 255;
  return {at(2) * (info.width - width) / 255, at(3) * (info.height - height) / 255, width, height};
}

void check(std::span<const std::byte> bytes) {
  const auto info = probe_image(bytes);
  if (!info.ok() || int64_t{info->width} * info->height > kMaxPixels) return;
  DecodeLimits limits;
  limits.max_pixels = kMaxPixels;
  limits.max_scans = 20;
  ImageDecoder decoder(limits);
  const Region part = some_region(*info, bytes);
  decode(decoder, bytes, part);
  const Region whole{0, 0, info->width, info->height};
  const Image expected = decode(decoder, bytes, whole);
  ImageDecoder fresh(limits);
  const Image alone = decode(fresh, bytes, whole);
  const Image after = decode_after_another(decoder, bytes, whole);
  for (const Image* other : {&alone, &after}) {
    if (other->ok != expected.ok || (expected.ok && other->pixels != expected.pixels)) std::abort();
  }
  if (info->layout == ImageLayout::kCoefficients) (void)coefficients_to_jpeg(bytes, limits);
  if (info->layout != ImageLayout::kJpeg || !expected.ok) return;
  for (const TileKind& tiles : {kFastTiles, kDenseTiles}) {
    const auto record = encode_coefficients(bytes, limits, tiles);
    if (!record.ok()) continue;
    // Pixels may differ where a corrupt file's coefficients leave the range that both transforms keep: ingest
    // compares them. Reading it must never fail.
    if (!decode(decoder, *record, whole).ok || !coefficients_to_jpeg(*record, limits).ok()) std::abort();
  }
  if (const auto indexed = encode_restart(bytes, limits); indexed.ok()) {
    if (!decode(decoder, *indexed, part).ok) std::abort();
  }
}

}  // namespace
}  // namespace dlpipe::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::data::check(std::as_bytes(std::span(data, size)));
  return 0;
}
