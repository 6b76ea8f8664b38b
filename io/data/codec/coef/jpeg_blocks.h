// A JPEG's quantised coefficients in memory, read and written by libjpeg.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/coef/record.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data::coef {

/// All coefficients of a picture, natural order, by component and block. Blocks that only fill up an MCU are
/// not there.
class Blocks {
 public:
  Blocks() = default;
  explicit Blocks(const Frame& frame) { reset(frame); }
  /// Makes room for another picture's blocks, whose values are left open where there were some before.
  void reset(const Frame& frame);
  int16_t* at(int component, int x, int y) {
    return of_[component].data() +
           size_t{64} *
               (static_cast<size_t>(y) * static_cast<size_t>(wide_[component]) + static_cast<size_t>(x));
  }
  /// A BlockSource (zigzag_row.h); `self` is a Blocks.
  static const int16_t* source(void* self, int component, int x, int y) {
    return static_cast<Blocks*>(self)->at(component, x, y);
  }

 private:
  std::array<std::vector<int16_t>, kMaxComponents> of_;
  std::array<int, kMaxComponents> wide_{};
};

struct JpegPicture {
  Frame frame;
  Blocks blocks;
};

/// Fills `picture`, whose memory is used again, and, where given, `pixels` (the whole picture as stored, of
/// as many channels as its components: 1 or 3), both out of one reading of the entropy-coded data. kCorrupt
/// for damaged files, as JpegDecoder has it; kUnsupported for what has no Frame.
Status read_jpeg(std::span<const std::byte> jpeg, const DecodeLimits& limits, JpegPicture& picture,
                 const ImageView* pixels = nullptr);

/// One baseline scan with fitted Huffman tables and, if it isn't 0, a restart marker every `restart_interval`
/// MCUs. `segments`: whole APPn and COM segments to put before it.
Result<std::vector<std::byte>> write_jpeg(const Frame& frame, Blocks& blocks,
                                          std::span<const std::byte> segments, int restart_interval);

/// The APPn and COM segments of a file, with their markers.
std::vector<std::byte> metadata_of(std::span<const std::byte> jpeg);

}  // namespace dlpipe::data::coef
