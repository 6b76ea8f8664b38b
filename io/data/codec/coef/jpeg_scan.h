// The entropy-coded data of a baseline or extended sequential JPEG of one scan, written from coefficients
// with given Huffman tables (ITU-T T.81, F.1.2): to give back the very bytes a record was made from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/io/data/codec/coef/record.h"

namespace dlpipe::data::coef {

/// Where a source's one scan lies.
struct SourceScan {
  size_t head_bytes = 0;  // up to the entropy-coded data
  size_t tail_begin = 0;  // the marker behind it
};
/// Nothing unless the file is one sequential Huffman-coded scan of all components.
std::optional<SourceScan> find_scan(std::span<const std::byte> jpeg);

/// Answers the coefficients of a block, natural order.
using BlockSource = const int16_t* (*)(void* context, int component, int x, int y);

/// The scan's bytes, with the tables, restart interval and component order that `head` declares. Blocks
/// beyond a component's own are written as encoders do: the DC of the block before, no AC. Nothing when a
/// symbol has no code in the head's tables or the head is damaged.
std::optional<std::vector<std::byte>> write_scan(const Frame& frame, std::span<const std::byte> head,
                                                 BlockSource block, void* context);

}  // namespace dlpipe::data::coef
