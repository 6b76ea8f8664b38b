// Which blocks of each component a region of a picture needs: its own samples, and one to each side where
// upsampling looks at neighbours.
#pragma once

#include "dlpipe/base/coef_math.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/coef/record.h"

namespace dlpipe::data::coef {

struct RegionBlocks {
  int fx = 1;  // pixels per sample
  int fy = 1;
  Upsampling upsampling = Upsampling::kNone;
  int first_block = 0;  // columns of blocks: [first_block, end_block)
  int end_block = 0;
  int first_row = 0;  // rows of blocks: [first_row, end_row)
  int end_row = 0;
};
/// `region` lies in the picture and isn't empty.
RegionBlocks region_blocks(const Frame& frame, int component, const Region& region);

/// MCU rows.
struct RowRange {
  int first = 0;
  int end = 0;
};
/// Those that hold some of the blocks.
RowRange region_rows(const Frame& frame, const Region& region);

}  // namespace dlpipe::data::coef
