// The entropy-coded data of a baseline or extended sequential JPEG of one scan, written from coefficients
// with given Huffman tables (ITU-T T.81, F.1.2): to give back the very bytes a record was made from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/io/data/codec/coef/record.h"
#include "dlpipe/io/data/codec/coef/zigzag_row.h"

namespace dlpipe::data::coef {

/// Where a source's one scan lies.
struct SourceScan {
  size_t head_bytes = 0;  // up to the entropy-coded data
  size_t tail_begin = 0;  // the marker behind it
};
/// Nothing unless the file is one sequential Huffman-coded scan of all components.
std::optional<SourceScan> find_scan(std::span<const std::byte> jpeg);

/// Writes a scan MCU row by MCU row, with the tables, restart interval and component order that its head declares.
/// Blocks beyond a component's own are written as encoders do: the DC of the block before, no AC.
class SourceScanWriter {
 public:
  /// `frame` outlives this object. Nothing where the head is damaged.
  static std::optional<SourceScanWriter> begin(const Frame& frame, std::span<const std::byte> head);
  SourceScanWriter(SourceScanWriter&&) noexcept;
  SourceScanWriter& operator=(SourceScanWriter&&) noexcept;
  ~SourceScanWriter();
  /// The rows in their order. False when a symbol has no code in the head's tables: then this object is of no more use.
  bool put(int row, const ZigzagRow& blocks);
  std::vector<std::byte> take();

 private:
  struct State;
  explicit SourceScanWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// All of it at once. Nothing where begin() or put() would fail.
std::optional<std::vector<std::byte>> write_scan(const Frame& frame, std::span<const std::byte> head,
                                                 BlockSource block, void* context);

}  // namespace dlpipe::data::coef
