#include "dlpipe/io/data/codec/coef/region_blocks.h"

#include <algorithm>

namespace dlpipe::data::coef {

RegionBlocks region_blocks(const Frame& frame, int c, const Region& region) {
  const Component& component = frame.component[c];
  RegionBlocks blocks;
  blocks.fx = frame.max_h / component.h;
  blocks.fy = frame.max_v / component.v;
  blocks.upsampling = upsampling_of(component.width, blocks.fx, blocks.fy);
  const int around_x = blocks.fx > 1 ? 1 : 0;
  const int around_y = blocks.fy > 1 ? 1 : 0;
  const int left = std::max(0, region.x / blocks.fx - around_x);
  const int right = std::min(component.width, divide_up(region.x + region.width, blocks.fx) + around_x);
  const int top = std::max(0, region.y / blocks.fy - around_y);
  const int bottom = std::min(component.height, divide_up(region.y + region.height, blocks.fy) + around_y);
  blocks.first_block = left / 8;
  blocks.end_block = divide_up(right, 8);
  blocks.first_row = top / 8;
  blocks.end_row = divide_up(bottom, 8);
  return blocks;
}

RowRange region_rows(const Frame& frame, const Region& region) {
  RowRange rows{frame.mcu_rows, 0};
  for (int c = 0; c < frame.components; ++c) {
    const RegionBlocks blocks = region_blocks(frame, c, region);
    rows.first = std::min(rows.first, blocks.first_row / frame.component[c].v);
    rows.end = std::max(rows.end, divide_up(blocks.end_row, frame.component[c].v));
  }
  return rows;
}

}  // namespace dlpipe::data::coef
