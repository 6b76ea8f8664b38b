// A JPEG's quantised coefficients in memory, read and written by libjpeg.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/record.h"

namespace dlpipe::data::coef {

/// All coefficients of an image, natural order, by component and block. Blocks that only pad an MCU are left out.
class Blocks {
 public:
  Blocks() = default;
  explicit Blocks(const Frame& frame) { reset(frame); }
  /// Makes room for another image's blocks. Values of reused memory are unspecified.
  void reset(const Frame& frame);
  int16_t* at(int component, int x, int y) {
    return of_[component].data() +
           size_t{64} *
               (static_cast<size_t>(y) * static_cast<size_t>(wide_[component]) + static_cast<size_t>(x));
  }
  /// A BlockSource (jpeg_scan.h); `self` is a Blocks.
  static const int16_t* source(void* self, int component, int x, int y) {
    return static_cast<Blocks*>(self)->at(component, x, y);
  }

 private:
  std::array<std::vector<int16_t>, kMaxComponents> of_;
  std::array<int, kMaxComponents> wide_{};
};

struct JpegImage {
  Frame frame;
  Blocks blocks;
};

/// Fills `image`, reusing its memory, and `pixels` if given (the whole image as stored, with one channel per component: 1 or
/// 3), reading the entropy-coded data only once. kCorrupt for corrupt files, as in JpegDecoder; kUnsupported for images that
/// have no Frame.
Status read_jpeg(std::span<const std::byte> jpeg, const DecodeLimits& limits, JpegImage& image,
                 const ImageView* pixels = nullptr);

/// One baseline scan with fitted Huffman tables and, if it isn't 0, a restart marker every `restart_interval` MCUs. `segments`:
/// complete APPn and COM segments to write before it.
Result<std::vector<std::byte>> write_jpeg(const Frame& frame, Blocks& blocks,
                                          std::span<const std::byte> segments, int restart_interval);

/// The APPn and COM segments of a file, with their markers.
std::vector<std::byte> metadata_of(std::span<const std::byte> jpeg);

}  // namespace dlpipe::data::coef
