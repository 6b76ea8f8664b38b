#include "dlpipe/io/data/codec/coef/tile_reader.h"

#include <cstring>

namespace dlpipe::data::coef {
namespace {

// The loop is compiled twice: with BMI2's shifts and bit deposits, and without.
#define DLPIPE_COEF_INLINE __attribute__((always_inline)) inline

constexpr uint64_t kOnes = 0x0101010101010101;

// Two ways to lay n values of `width` bits into those bytes of eight that `mask` names.

/// With BMI2's pdep, as an asm statement: the intrinsic can't be inlined into a function for any machine.
struct Deposit {
#if defined(__x86_64__)
  static bool available() {
    return __builtin_cpu_supports("bmi2") != 0;
  }
  DLPIPE_COEF_INLINE static uint64_t pdep(uint64_t bits, uint64_t mask) {
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

/// The next bits of a tile, at least 56 of them after refill() (after Giesen, "Reading bits in far too many
/// ways", 2018, variant 4). Loads up to 8 bytes behind what is used.
struct BitReader {
  const std::byte* next;
  uint64_t word = 0;
  uint32_t bits = 0;

  DLPIPE_COEF_INLINE void refill() {
    uint64_t more;
    std::memcpy(&more, next, sizeof more);
    word |= more << bits;
    next += (63 - bits) >> 3;
    bits |= 56;
  }
  DLPIPE_COEF_INLINE void skip(uint32_t count) {
    word >>= count;
    bits -= count;
  }
  size_t position(const std::byte* begin) const { return 8 * static_cast<size_t>(next - begin) - bits; }
};

/// Values of more bits than a byte has room for: rare, one by one.
BitReader read_wide(BitReader reader, uint32_t mask, uint32_t width, int group, int block,
                    TileBlocks& blocks) {
  for (int i = 0; i < 8; ++i) {
    if (((mask >> i) & 1) == 0) continue;
    reader.refill();
    const auto coded = static_cast<uint32_t>(reader.word & ((uint64_t{1} << width) - 1));
    reader.skip(width);
    const int size = static_cast<int>(coded >> 1) + 1;
    blocks.wide[static_cast<size_t>(blocks.wide_count++)] = {
        static_cast<uint8_t>(block), kZigzag[static_cast<size_t>(8 * group + i)],
        static_cast<int16_t>((coded & 1) != 0 ? -size : size)};
  }
  return reader;
}

DLPIPE_COEF_INLINE void store(uint8_t* to, uint64_t eight) {
  std::memcpy(to, &eight, sizeof eight);
}

constexpr uint32_t kSafeWidth =
    4;  // 7 bits of token, 10 of mask and 8 values of this many fit into one refill

template <class How>
DLPIPE_COEF_INLINE bool read(const std::byte* bytes, size_t size, int plane, int count, bool whole,
                             TileBlocks& blocks) {
  const DecodeTables& tables = decode_tables();
  const std::byte* const limit = bytes + size + sizeof(uint64_t);
  BitReader reader{bytes};
  int dc = 0;
  uint32_t dc_context = kDcContexts - 1;
  blocks.wide_count = 0;
  blocks.wide_blocks = 0;
  for (int block = 0; block < count; ++block) {
    const auto number = static_cast<size_t>(block);
    reader.refill();
    const uint32_t dc_entry = tables.dc[plane][dc_context][reader.word & ((1 << kDcMaxLength) - 1)];
    dc_context = dc_entry & 0xff;
    reader.skip(dc_entry >> 8);
    const auto coded = static_cast<int>(reader.word & ((1u << dc_context) - 1));
    reader.skip(dc_context);
    const int below_zero = coded < ((1 << dc_context) >> 1) ? 1 - (1 << dc_context) : 0;
    dc += coded + below_zero;
    blocks.dc[number][0] = static_cast<int16_t>(dc);

    uint8_t* const values = blocks.values[number].data();
    std::memset(values, 0, 64);
    int group = 0;
    for (int before = kTokensBefore - 1; group < kGroups; ++group) {
      reader.refill();
      const uint32_t token_entry =
          tables.token[token_context(plane, group, before)][reader.word & ((1 << kTokenMaxLength) - 1)];
      const uint32_t token = token_entry & 0xff;
      reader.skip(token_entry >> 8);
      before = static_cast<int>(token);
      if (token == kEmpty) continue;
      if (token == kEnd) break;
      uint32_t width = token;
      if (token == kWide) {
        width = static_cast<uint32_t>(8 + (reader.word & 15));
        reader.skip(4);
      }
      const uint32_t mask_entry =
          tables
              .mask[mask_context(group, static_cast<int>(width))][reader.word & ((1 << kMaskMaxLength) - 1)];
      const uint32_t mask = mask_entry & 0xff;
      reader.skip((mask_entry >> 8) & 15);
      if (reader.next > limit) return false;
      if (width > kSafeWidth) {
        reader.refill();
        if (token == kWide) {
          blocks.wide_blocks |= 1u << block;
          reader = read_wide(reader, mask, width, group, block, blocks);
          continue;
        }
      }
      const uint64_t present = How::present(mask);
      store(values + 8 * group, How::spread(reader.word, present, static_cast<int>(width)) + 2 * present);
      reader.skip((mask_entry >> 12) * width);
    }
    blocks.groups[number] = static_cast<uint8_t>(group);
    if (reader.next > limit || reader.position(bytes) > 8 * size) return false;
  }
  return !whole || (reader.position(bytes) + 7) / 8 == size;
}

#if defined(__x86_64__)
__attribute__((target("bmi,bmi2,lzcnt,popcnt")))
#endif
bool read_with_deposits(const std::byte* bytes, size_t size, int plane_class, int count, bool whole,
                        TileBlocks& blocks) {
  return read<Deposit>(bytes, size, plane_class, count, whole, blocks);
}

}  // namespace

bool read_tile(const std::byte* bytes, size_t size, int plane_class, int count, bool whole,
               TileBlocks& blocks) {
  static const bool deposits = Deposit::available();
  return deposits ? read_with_deposits(bytes, size, plane_class, count, whole, blocks)
                  : read_tile_portable(bytes, size, plane_class, count, whole, blocks);
}

bool read_tile_portable(const std::byte* bytes, size_t size, int plane_class, int count, bool whole,
                        TileBlocks& blocks) {
  return read<Portable>(bytes, size, plane_class, count, whole, blocks);
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
  out[0] = blocks.dc[number][0];
}

}  // namespace dlpipe::data::coef
