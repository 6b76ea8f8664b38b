// The host's part of decoding a crop on a GPU: which tiles it touches, copied side by side, and what the
// kernels must know (base/coef_batch.h). Nothing is decoded. Every size and offset that a kernel uses is
// checked here against the record, which may hold anything; the tiles' own bits are the kernel's to distrust.
//
// A TileSelector belongs to one thread and keeps its memory between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/coef/record.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

/// What is wanted of a picture: a region, resized.
struct CoefCrop {
  Region region;         // what is decoded, in the picture as seen
  int source_width = 0;  // the resize's source: `region` is the part of it that the window depends on
  int source_height = 0;
  int out_width = 0;  // all of the source, resized
  int out_height = 0;
  Region window;  // the part of that which comes out
  bool flip = false;
  int channels = 3;
};

/// All of `region` at another size: rrc, or a crop where the sizes are the region's.
CoefCrop whole_crop(const Region& region, int out_width, int out_height, bool flip, int channels = 3);

class TileSelector {
 public:
  explicit TileSelector(const DecodeLimits& limits = {}) : limits_(limits) {}

  /// Fills all of `sample` but its places in tiles, scratch and batch; answers the bytes of its part of the
  /// tiles. kUnsupported: not for a GPU (coded tiles, another layout, too large); decode it on the host.
  /// kCorrupt and kMisuse as ImageDecoder.
  Result<size_t> select(std::span<const std::byte> record, const CoefCrop& crop, coef::CoefSample& sample);
  /// The part of the tile memory of what was selected last; `record` as it was then, `to` of that many bytes.
  void copy(std::span<std::byte> to) const;

 private:
  struct Run {
    const std::byte* begin;
    size_t size;
  };

  Status fill_tiles(const coef::Record& record, const Region& stored, coef::CoefSample& sample);
  /// False: it is larger than any.
  bool take_tile(const coef::RowTiles::Tile& tile, const coef::CoefSample& sample);

  DecodeLimits limits_;
  std::vector<coef::TileRange> ranges_;
  std::vector<Run> runs_;  // neighbours are one
  size_t bytes_ = 0;       // of all runs
};

}  // namespace dlpipe::data
