// The blocks of one MCU row in zigzag order: turned once for all that write them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/io/data/codec/coef/block_code.h"
#include "dlpipe/io/data/codec/coef/record.h"

namespace dlpipe::data::coef {

/// Answers the coefficients of a block, natural order.
using BlockSource = const int16_t* (*)(void* context, int component, int x, int y);

/// Keeps its memory from one row to the next.
class ZigzagRow {
 public:
  void fill(const Frame& frame, int row, BlockSource block, void* context) {
    for (int c = 0; c < frame.components; ++c) {
      const Component& component = frame.component[c];
      const int high = frame.block_rows(c, row);
      wide_[c] = component.blocks_wide;
      of_[c].resize(static_cast<size_t>(wide_[c]) * static_cast<size_t>(high));
      for (int y = 0; y < high; ++y) {
        for (int x = 0; x < wide_[c]; ++x)
          of_[c][index(c, x, y)].fill(block(context, c, x, row * component.v + y));
      }
    }
  }
  /// Row `y` of a component's blocks, counted from the MCU row's first; empty where the picture ended above it.
  std::span<const ZigzagBlock> blocks(int component, int y) const {
    const size_t begin = index(component, 0, y);
    if (begin >= of_[component].size()) return {};
    return std::span(of_[component]).subspan(begin, static_cast<size_t>(wide_[component]));
  }

 private:
  size_t index(int component, int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(wide_[component]) + static_cast<size_t>(x);
  }
  std::array<std::vector<ZigzagBlock>, kMaxComponents> of_;
  std::array<int, kMaxComponents> wide_{};
};

}  // namespace dlpipe::data::coef
