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

/// A tile being read.
template <class How>
class Stream {
 public:
  DLPIPE_COEF_INLINE explicit Stream(const Tile& tile, TileBlocks& blocks)
      : reader_{tile.bytes},
        begin_(tile.bytes),
        limit_(tile.bytes + tile.size + sizeof(uint64_t)),
        bits_(8 * tile.size),
        plane_(tile.plane_class),
        blocks_(blocks),
        tables_(decode_tables()) {
    blocks.wide_count = 0;
    blocks.wide_blocks = 0;
  }

  DLPIPE_COEF_INLINE void begin_block(int block) {
    reader_.refill();
    const uint32_t entry = tables_.dc[plane_][dc_context_][reader_.word & ((1 << kDcMaxLength) - 1)];
    dc_context_ = entry & 0xff;
    reader_.skip(entry >> 8);
    const auto coded = static_cast<int>(reader_.word & ((1u << dc_context_) - 1));
    reader_.skip(dc_context_);
    dc_ += coded + (coded < ((1 << dc_context_) >> 1) ? 1 - (1 << dc_context_) : 0);
    blocks_.dc[static_cast<size_t>(block)][0] = static_cast<int16_t>(dc_);
    values_ = blocks_.values[static_cast<size_t>(block)].data();
    std::memset(values_, 0, 64);
    before_ = kTokensBefore - 1;
    group_ = 0;
  }

  /// One group; false behind the block's last.
  DLPIPE_COEF_INLINE bool read_group(int block) {
    reader_.refill();
    const uint32_t token_entry =
        tables_.token[token_context(plane_, group_, before_)][reader_.word & ((1 << kTokenMaxLength) - 1)];
    const uint32_t token = token_entry & 0xff;
    reader_.skip(token_entry >> 8);
    if (token == kEnd) return false;
    before_ = static_cast<int>(token);
    const int group = group_++;
    if (token != kEmpty && !read_values(block, group, token)) return false;
    return group_ < kGroups;
  }

  /// False when the bits have run past the tile's end.
  DLPIPE_COEF_INLINE bool end_block(int block) {
    blocks_.groups[static_cast<size_t>(block)] = static_cast<uint8_t>(group_);
    return reader_.next <= limit_ && reader_.position(begin_) <= bits_;
  }

  /// After a tile's last block.
  bool is_whole() const { return (reader_.position(begin_) + 7) / 8 * 8 == bits_; }

 private:
  DLPIPE_COEF_INLINE bool read_values(int block, int group, uint32_t token) {
    uint32_t width = token;
    if (token == kWide) {
      width = static_cast<uint32_t>(8 + (reader_.word & 15));
      reader_.skip(4);
    }
    const uint32_t entry =
        tables_
            .mask[mask_context(group, static_cast<int>(width))][reader_.word & ((1 << kMaskMaxLength) - 1)];
    const uint32_t mask = entry & 0xff;
    reader_.skip((entry >> 8) & 15);
    if (reader_.next > limit_) return false;  // end_block says so
    if (width > kSafeWidth) {
      reader_.refill();
      if (token == kWide) {
        blocks_.wide_blocks |= 1u << block;
        reader_ = read_wide(reader_, mask, width, group, block, blocks_);
        return true;
      }
    }
    const uint64_t present = How::present(mask);
    store(values_ + 8 * group, How::spread(reader_.word, present, static_cast<int>(width)) + 2 * present);
    reader_.skip((entry >> 12) * width);
    return true;
  }

  BitReader reader_;
  const std::byte* begin_;
  const std::byte* limit_;
  size_t bits_;
  int plane_;
  TileBlocks& blocks_;
  const DecodeTables& tables_;
  int dc_ = 0;
  uint32_t dc_context_ = kDcContexts - 1;
  // Of the block in progress.
  uint8_t* values_ = nullptr;
  int before_ = 0;
  int group_ = 0;
};

template <class How>
DLPIPE_COEF_INLINE bool read_blocks(Stream<How>& stream, int first, const Tile& tile) {
  for (int block = first; block < tile.count; ++block) {
    stream.begin_block(block);
    while (stream.read_group(block)) {
    }
    if (!stream.end_block(block)) return false;
  }
  return !tile.whole || stream.is_whole();
}

template <class How>
DLPIPE_COEF_INLINE bool read(const Tile& tile, TileBlocks& blocks) {
  Stream<How> stream(tile, blocks);
  return read_blocks(stream, 0, tile);
}

/// Two tiles in lockstep: each waits for its own bits most of the time.
template <class How>
DLPIPE_COEF_INLINE bool read_two(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                 TileBlocks& blocks_b) {
  Stream<How> a(tile_a, blocks_a);
  Stream<How> b(tile_b, blocks_b);
  const int both = tile_a.count < tile_b.count ? tile_a.count : tile_b.count;
  for (int block = 0; block < both; ++block) {
    a.begin_block(block);
    b.begin_block(block);
    while (true) {
      if (!a.read_group(block)) {
        while (b.read_group(block)) {
        }
        break;
      }
      if (!b.read_group(block)) {
        while (a.read_group(block)) {
        }
        break;
      }
    }
    if (!a.end_block(block) || !b.end_block(block)) return false;
  }
  return read_blocks(a, both, tile_a) && read_blocks(b, both, tile_b);
}

#if defined(__x86_64__)
#define DLPIPE_COEF_TARGET __attribute__((target("bmi,bmi2,lzcnt,popcnt")))
#else
#define DLPIPE_COEF_TARGET
#endif

DLPIPE_COEF_TARGET bool read_deposit(const Tile& tile, TileBlocks& blocks) {
  return read<Deposit>(tile, blocks);
}
DLPIPE_COEF_TARGET bool read_two_deposit(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                         TileBlocks& blocks_b) {
  return read_two<Deposit>(tile_a, blocks_a, tile_b, blocks_b);
}

bool has_deposit() {
  static const bool available = Deposit::available();
  return available;
}

}  // namespace

bool read_tile(const Tile& tile, TileBlocks& blocks) {
  return has_deposit() ? read_deposit(tile, blocks) : read_tile_portable(tile, blocks);
}

bool read_tiles(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b) {
  return has_deposit() ? read_two_deposit(tile_a, blocks_a, tile_b, blocks_b)
                       : read_two<Portable>(tile_a, blocks_a, tile_b, blocks_b);
}

bool read_tile_portable(const Tile& tile, TileBlocks& blocks) {
  return read<Portable>(tile, blocks);
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
