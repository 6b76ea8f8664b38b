#include "dlpipe/io/data/codec/coef/tile_reader.h"

#include <cstring>

namespace dlpipe::data::coef {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101;

// Two ways to lay n values of `width` bits into those bytes of eight that `mask` names.

/// With BMI2. As an asm statement, it needs no function of its own target and is inlined everywhere.
struct Deposit {
#if defined(__x86_64__)
  static bool available() {
    return __builtin_cpu_supports("bmi2") != 0;
  }
  static uint64_t pdep(uint64_t bits, uint64_t mask) {
    uint64_t out;
    asm("pdepq %2, %1, %0" : "=r"(out) : "r"(bits), "r"(mask));
    return out;
  }
#else
  static bool available() {
    return false;
  }
  static uint64_t pdep(uint64_t bits, uint64_t mask) {
    uint64_t out = 0;
    for (uint64_t bit = 1; mask != 0; bit <<= 1, mask &= mask - 1)
      if ((bits & bit) != 0) out |= mask & -mask;
    return out;
  }
#endif
  /// 1 in the bytes of `mask`.
  static uint64_t present(uint32_t mask) {
    return pdep(mask, kOnes);
  }
  static uint64_t spread(uint64_t bits, uint64_t present, int width) {
    return pdep(bits, present * 0xff & kOnes * ((1u << width) - 1));
  }
};

struct Portable {
  static uint64_t present(uint32_t mask) {
    uint64_t out = 0;
    for (int i = 0; i < 8; ++i) out |= uint64_t{(mask >> i) & 1} << (8 * i);
    return out;
  }
  static uint64_t spread(uint64_t bits, uint64_t present, int width) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 8) {
      if (((present >> i) & 1) == 0) continue;
      out |= (bits & ((1u << width) - 1)) << i;
      bits >>= width;
    }
    return out;
  }
};

/// Where reading stands; at least 57 bits are ready after peek().
struct BitReader {
  const std::byte* bytes;
  size_t at = 0;  // bits

  uint64_t peek() const {
    uint64_t word;
    std::memcpy(&word, bytes + (at >> 3), sizeof word);
    return word >> (at & 7);
  }
};

struct BlockPlace {
  int block;
  uint8_t* values;  // null: passed over
};

/// Values of more bits than a byte has room for: rare, one by one.
void read_wide(BitReader& reader, uint32_t mask, int width, int group, const BlockPlace& place,
               TileBlocks& blocks) {
  for (int i = 0; i < 8; ++i) {
    if (((mask >> i) & 1) == 0) continue;
    const auto coded = static_cast<uint32_t>(reader.peek() & ((uint64_t{1} << width) - 1));
    reader.at += static_cast<size_t>(width);
    if (place.values == nullptr) continue;
    const int size = static_cast<int>(coded >> 1) + 1;
    blocks.wide[static_cast<size_t>(blocks.wide_count++)] = {
        static_cast<uint8_t>(place.block), kZigzag[static_cast<size_t>(8 * group + i)],
        static_cast<int16_t>((coded & 1) != 0 ? -size : size)};
  }
}

void store(uint8_t* to, uint64_t eight) {
  std::memcpy(to, &eight, sizeof eight);
}

/// The groups of one block. True unless the bits run past `end`.
template <class How>
bool read_groups(BitReader& reader, size_t end, const DecodeTables& tables, int plane,
                 const BlockPlace& place, TileBlocks& blocks, int* groups) {
  int before = kTokenContexts - 1;
  int group = 0;
  for (; group < kGroups; ++group) {
    uint64_t word = reader.peek();
    const uint32_t token_entry = tables.token[plane][before][word & ((1 << kTokenMaxLength) - 1)];
    const int token = token_entry & 0xff;
    reader.at += token_entry >> 8;
    if (token == kEnd) break;
    before = token;
    if (token == kEmpty) {
      if (place.values != nullptr) store(place.values + 8 * group, 0);
      continue;
    }
    word >>= token_entry >> 8;
    int width = token;
    if (token == kWide) {
      width = static_cast<int>(8 + (word & 15));
      word >>= 4;
      reader.at += 4;
    }
    const uint32_t mask_entry = tables.mask[mask_context(group, width)][word & ((1 << kMaskMaxLength) - 1)];
    const uint32_t mask = mask_entry & 0xff;
    reader.at += (mask_entry >> 8) & 15;
    if (reader.at > end) return false;
    if (token == kWide) {
      read_wide(reader, mask, width, group, place, blocks);
      if (place.values != nullptr) store(place.values + 8 * group, 0);
      continue;
    }
    if (place.values != nullptr) {
      const uint64_t present = How::present(mask);
      store(place.values + 8 * group, How::spread(reader.peek(), present, width) + 2 * present);
    }
    reader.at += (mask_entry >> 12) * static_cast<uint32_t>(width);
  }
  *groups = group;
  return reader.at <= end;
}

template <class How>
bool read(const std::byte* bytes, size_t size, int plane, int first, int count, bool whole,
          TileBlocks& blocks) {
  const DecodeTables& tables = decode_tables();
  const size_t end = 8 * size;
  BitReader reader{bytes};
  int dc = 0;
  uint32_t dc_context = kDcContexts - 1;
  blocks.wide_count = 0;
  for (int block = 0; block < count; ++block) {
    if (reader.at > end) return false;
    const uint64_t word = reader.peek();
    const uint32_t entry = tables.dc[plane][dc_context][word & ((1 << kDcMaxLength) - 1)];
    dc_context = entry & 0xff;
    const auto coded = static_cast<int>((word >> (entry >> 8)) & ((1u << dc_context) - 1));
    reader.at += (entry >> 8) + dc_context;
    const bool negative = dc_context > 0 && (coded >> (dc_context - 1)) == 0;
    dc += negative ? coded + 1 - (1 << dc_context) : coded;
    const BlockPlace place{block, block < first ? nullptr : blocks.values[static_cast<size_t>(block)].data()};
    int groups = 0;
    if (!read_groups<How>(reader, end, tables, plane, place, blocks, &groups)) return false;
    blocks.dc[static_cast<size_t>(block)] = static_cast<int16_t>(dc);
    blocks.groups[static_cast<size_t>(block)] = static_cast<uint8_t>(groups);
  }
  return !whole || (reader.at + 7) / 8 == size;
}

}  // namespace

bool read_tile(const std::byte* bytes, size_t size, int plane_class, int first, int count, bool whole,
               TileBlocks& blocks) {
  static const bool deposits = Deposit::available();
  return deposits ? read<Deposit>(bytes, size, plane_class, first, count, whole, blocks)
                  : read<Portable>(bytes, size, plane_class, first, count, whole, blocks);
}

bool read_tile_portable(const std::byte* bytes, size_t size, int plane_class, int first, int count,
                        bool whole, TileBlocks& blocks) {
  return read<Portable>(bytes, size, plane_class, first, count, whole, blocks);
}

void natural_coefficients(const TileBlocks& blocks, int block, int16_t* out) {
  const auto number = static_cast<size_t>(block);
  std::memset(out, 0, 64 * sizeof(int16_t));
  for (size_t i = 0; i < size_t{8} * blocks.groups[number]; ++i) {
    const int coded = blocks.values[number][i];
    out[kZigzag[i]] = static_cast<int16_t>((coded & 1) != 0 ? -(coded >> 1) : coded >> 1);
  }
  for (int i = 0; i < blocks.wide_count; ++i) {
    const TileBlocks::Wide& wide = blocks.wide[static_cast<size_t>(i)];
    if (wide.block == block) out[wide.position] = wide.value;
  }
  out[0] = blocks.dc[number];
}

}  // namespace dlpipe::data::coef
