#include "dlpipe/io/data/codec/coef/prefix_code.h"

#include <bit>
#include <span>
#include <string_view>

namespace dlpipe::data::coef {
namespace {

// Lengths of codes, one character a symbol: 0 (no code) to 9, a for 10.
#include "dlpipe/io/data/codec/coef/code_lengths.inc"

int length_of(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

uint16_t reversed(uint32_t bits, int length) {
  uint32_t out = 0;
  for (int i = 0; i < length; ++i) out |= ((bits >> i) & 1) << (length - 1 - i);
  return static_cast<uint16_t>(out);
}

/// Canonical codes: shorter before longer, then by symbol.
void assign(std::string_view lengths, std::span<Code> codes) {
  uint32_t next = 0;
  for (int length = 1; length <= 15; ++length) {
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (length_of(lengths[symbol]) != length) continue;
      codes[symbol] = {reversed(next++, length), static_cast<uint8_t>(length)};
    }
    next <<= 1;
  }
}

void fill(std::span<const Code> codes, std::span<uint16_t> table, bool counts_bits) {
  for (size_t symbol = 0; symbol < codes.size(); ++symbol) {
    const Code code = codes[symbol];
    if (code.length == 0) continue;
    const int set = counts_bits ? std::popcount(symbol) : 0;
    const auto entry =
        static_cast<uint16_t>(symbol | size_t{code.length} << 8 | static_cast<size_t>(set) << 12);
    for (size_t i = code.bits; i < table.size(); i += size_t{1} << code.length) table[i] = entry;
  }
}

EncodeTables make_encode_tables() {
  EncodeTables tables{};
  for (int plane = 0; plane < kPlaneClasses; ++plane) {
    for (int context = 0; context < kDcContexts; ++context)
      assign(kDcLengths[plane][context], tables.dc[plane][context]);
  }
  for (int context = 0; context < kTokenContexts; ++context)
    assign(kTokenLengths[context], tables.token[context]);
  for (int context = 0; context < kMaskContexts; ++context)
    assign(kMaskLengths[context], tables.mask[context]);
  return tables;
}

DecodeTables make_decode_tables() {
  const EncodeTables& codes = encode_tables();
  DecodeTables tables{};
  for (int plane = 0; plane < kPlaneClasses; ++plane) {
    for (int context = 0; context < kDcContexts; ++context)
      fill(codes.dc[plane][context], tables.dc[plane][context], false);
  }
  constexpr size_t kMaskTable = size_t{1} << kMaskMaxLength;
  for (size_t context = 0; context < kMaskContexts; ++context)
    fill(codes.mask[context], std::span(tables.mask).subspan(context * kMaskTable, kMaskTable), true);
  for (int plane = 0; plane < kPlaneClasses; ++plane) {
    for (int group = 0; group < kTokenGroups; ++group) {
      auto& rows = tables.token[plane][group];
      for (int before = 0; before < kTokensBefore; ++before)
        fill(codes.token[token_context(plane, group, before)],
             rows[before == kTokensBefore - 1 ? DecodeTables::kFirstRow : before], false);
      rows[kEnd].fill(kEnd);
    }
    for (int group = 0; group < kMaskGroups; ++group) {
      for (int token = 0; token < kTokens; ++token) {
        const bool empty = token == kEmpty || token == kEnd;
        const auto context = static_cast<uint32_t>(empty ? kMaskContexts : mask_context(plane, group, token));
        tables.mask_place[plane][group][token] = {context << kMaskMaxLength,
                                                  empty ? 0 : (1u << kMaskMaxLength) - 1};
      }
    }
  }
  return tables;
}

}  // namespace

const EncodeTables& encode_tables() {
  static const EncodeTables tables = make_encode_tables();
  return tables;
}

const DecodeTables& decode_tables() {
  static const DecodeTables tables = make_decode_tables();
  return tables;
}

}  // namespace dlpipe::data::coef
