// The entropy-coded data of a baseline or extended sequential JPEG of one scan, written from coefficients with given Huffman
// tables (ITU-T T.81, F.1.2): so that the source's bytes can be reproduced.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/data/codec/coef/record.h"
#include "io/data/codec/coef/tile_code.h"

namespace dlpipe::data::coef {

/// Returns the coefficients of a block, natural order.
using BlockSource = const int16_t* (*)(void* context, int component, int x, int y);

/// The blocks of one MCU row in zigzag order, reordered once for all users. Keeps its memory from one row to the next.
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
  /// Row `y` of a component's blocks, counted from the MCU row's first; empty below the end of the image.
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

/// Where a source's single scan is.
struct SourceScan {
  size_t head_bytes = 0;  // up to the entropy-coded data
  size_t tail_begin = 0;  // the marker after it
};
/// nullopt unless the file is one sequential Huffman-coded scan of all components.
std::optional<SourceScan> find_scan(std::span<const std::byte> jpeg);

/// Writes a scan MCU row by MCU row, with the tables, restart interval and component order that its head declares.
/// Blocks beyond a component's own are written as encoders do: the previous block's DC, no AC.
class SourceScanWriter {
 public:
  /// `frame` must outlive this object. nullopt if the head is corrupt.
  static std::optional<SourceScanWriter> begin(const Frame& frame, std::span<const std::byte> head);
  SourceScanWriter(SourceScanWriter&&) noexcept;
  SourceScanWriter& operator=(SourceScanWriter&&) noexcept;
  ~SourceScanWriter();
  /// Writes rows in order. False if a symbol has no code in the head's tables; the object is then unusable.
  bool put(int row, const ZigzagRow& blocks);
  std::vector<std::byte> take();

 private:
  struct State;
  explicit SourceScanWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes everything at once. nullopt if begin() or put() would fail.
std::optional<std::vector<std::byte>> write_scan(const Frame& frame, std::span<const std::byte> head,
                                                 BlockSource block, void* context);

}  // namespace dlpipe::data::coef
