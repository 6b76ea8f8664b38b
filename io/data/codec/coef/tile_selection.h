// The host's part of decoding a crop on a GPU: the tiles that it touches, copied side by side, and what the kernels need
// (arithmetic/coef_batch.h). Nothing is decoded. Every size and offset that a kernel uses is checked here against the record,
// which may contain anything; the kernel checks the tiles' own bits.
//
// A TileSelector belongs to one thread and keeps its memory between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arithmetic/coef_batch.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "io/data/codec/coef/record.h"

namespace dlpipe::data {

/// What is requested of an image: a region, resized.
struct CoefCrop {
  Region region;         // what is decoded, in the oriented image
  int source_width = 0;  // the resize's source: `region` is the part of it that the window depends on
  int source_height = 0;
  int out_width = 0;  // all of the source, resized
  int out_height = 0;
  Region window;  // the part of that which is returned
  bool flip = false;
  int channels = 3;
};

/// All of `region` at another size: rrc, or a crop if the sizes are the region's.
CoefCrop whole_crop(const Region& region, int out_width, int out_height, bool flip, int channels = 3);

class TileSelector {
 public:
  explicit TileSelector(const DecodeLimits& limits = {}) : limits_(limits) {}

  /// Fills all of `sample` except its places in tiles, scratch and batch; returns the bytes of its part of the tiles.
  /// kUnsupported: not for a GPU (coded tiles, another layout, too large); decode it on the host. kCorrupt and kMisuse as in
  /// ImageDecoder.
  Result<size_t> select(std::span<const std::byte> record, const CoefCrop& crop, coef::CoefSample& sample);
  /// Copies the tile memory of what was selected last; `record` must be unchanged since, and `to` have that many bytes.
  void copy(std::span<std::byte> to) const;

 private:
  struct Run {
    const std::byte* begin;
    size_t size;
  };

  Status fill_tiles(const coef::Record& record, const Region& stored, coef::CoefSample& sample);
  /// False if it is larger than any valid tile.
  bool take_tile(const coef::RowTiles::Tile& tile, const coef::CoefSample& sample);

  DecodeLimits limits_;
  std::vector<coef::TileRange> ranges_;
  std::vector<Run> runs_;  // adjacent ones are merged
  size_t bytes_ = 0;       // of all runs
};

}  // namespace dlpipe::data
