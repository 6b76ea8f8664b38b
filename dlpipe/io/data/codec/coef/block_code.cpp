#include "dlpipe/io/data/codec/coef/block_code.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

namespace dlpipe::data::coef {

size_t BitWriter::take(std::vector<std::byte>& out) {
  const auto whole = bytes_.begin() + static_cast<ptrdiff_t>(size_);
  out.insert(out.end(), bytes_.begin(), whole);
  size_t taken = std::exchange(size_, 0);
  for (; held_bits_ > 0; held_bits_ -= 8, held_ >>= 8, ++taken) out.push_back(static_cast<std::byte>(held_));
  held_bits_ = 0;
  return taken;
}

static int bit_length(int value) {
  return std::bit_width(static_cast<unsigned>(std::abs(value)));
}

BlockSymbols symbols_of(const int16_t* coefficients, int dc_before) {
  BlockSymbols block;
  const int difference = coefficients[0] - dc_before;
  block.dc_class = bit_length(difference);
  block.dc_bits = static_cast<uint32_t>(difference < 0 ? difference - 1 + (1 << block.dc_class) : difference);
  for (int group = 0; group < kGroups; ++group) {
    int largest = 0;
    for (int i = group == 0 ? 1 : 0; i < 8; ++i) {
      const int value = coefficients[kZigzag[8 * group + i]];
      if (value == 0) continue;
      block.mask[group] |= static_cast<uint8_t>(1 << i);
      largest = std::max(largest, std::abs(value));
    }
    if (largest == 0) continue;
    block.width[group] = static_cast<uint8_t>(1 + bit_length(largest - 1));
    const bool fits = block.width[group] < 8 || (largest <= 127 && std::popcount(block.mask[group]) < 8);
    block.token[group] = fits ? block.width[group] : uint8_t{kWide};
    block.groups = group + 1;
  }
  return block;
}

// A value: its sign in the lowest bit, |value| - 1 above it.
void TileWriter::put_values(const int16_t* coefficients, int group, int width) {
  for (int i = group == 0 ? 1 : 0; i < 8; ++i) {
    const int value = coefficients[kZigzag[8 * group + i]];
    if (value != 0) out_.put(static_cast<uint64_t>(std::abs(value) - 1) << 1 | (value < 0 ? 1 : 0), width);
  }
}

void TileWriter::add(const int16_t* coefficients) {
  const EncodeTables& codes = encode_tables();
  const BlockSymbols block = symbols_of(coefficients, dc_);
  out_.put(codes.dc[plane_][dc_context_][block.dc_class]);
  out_.put(block.dc_bits, block.dc_class);
  dc_ = coefficients[0];
  dc_context_ = block.dc_class;
  int before = kTokensBefore - 1;
  for (int group = 0; group < block.groups; ++group) {
    const int width = block.width[group];
    const int token = block.token[group];
    out_.put(codes.token[token_context(plane_, group, before)][token]);
    before = token;
    if (width == 0) continue;
    if (token == kWide) out_.put(static_cast<uint64_t>(width - 8), 4);
    out_.put(codes.mask[mask_context(plane_, group, width)][block.mask[group]]);
    put_values(coefficients, group, width);
  }
  if (block.groups < kGroups) out_.put(codes.token[token_context(plane_, block.groups, before)][kEnd]);
}

}  // namespace dlpipe::data::coef
