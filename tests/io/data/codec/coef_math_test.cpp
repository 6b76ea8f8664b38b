// The formulas of arithmetic/coefficients.h against the codec's readers and kernels (whose scalar twins are made of
// them).
#include "arithmetic/coefficients.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dlpipe/random.h"
#include "io/data/codec/coef/kernels.h"
#include "io/data/codec/coef/tile_code.h"
#include "io/data/codec/coef/tile_reader.h"

namespace dlpipe::data {
namespace {

using Coefficients = std::array<int16_t, 64>;

/// Blocks [0, end) of a tile by the formulas; false where they say corrupt.
bool read_by_formulas(const std::vector<uint32_t>& words, size_t size, int blocks, int end,
                      std::vector<Coefficients>& out) {
  const coef::TileBits bits{words.data(), static_cast<uint32_t>((size + 3) / 4)};
  uint32_t at = 0;
  std::array<int16_t, coef::kMaxTileBlocks> dc{};
  if (!coef::read_packed_dc(bits, at, blocks, end, dc.data())) return false;
  for (int b = 0; b < end; ++b) {
    const coef::PackedBlock block = coef::read_packed_block(bits, at);
    if (block.overfull) return false;
    Coefficients one{};
    for (int group = 0; group < coef::kGroups; ++group) {
      uint32_t from = block.begin_of(group);
      for (int i = 0; i < 8; ++i) {
        if ((block.mask(group) >> i & 1) == 0) continue;
        one[coef::kZigzag[static_cast<size_t>(8 * group + i)]] =
            coef::packed_value(bits.at(from), block.width(group));
        from += static_cast<uint32_t>(block.width(group));
      }
    }
    one[0] = dc[static_cast<size_t>(b)];
    out.push_back(one);
    at = block.end;
    if (at > 8 * size) return false;
  }
  return end < blocks || (at + 7) / 8 == size;
}

void expect_the_readers_blocks(const std::vector<std::byte>& padded, size_t size, int blocks, int end) {
  std::vector<uint32_t> words((padded.size() + 3) / 4);
  std::memcpy(words.data(), padded.data(), padded.size());
  std::vector<Coefficients> got;
  const bool fine = read_by_formulas(words, size, blocks, end, got);
  coef::TileBlocks expected;
  const coef::Tile tile{padded.data(), size, coef::TileForm::kPacked, 0, blocks, 0, end};
  ASSERT_EQ(fine, coef::portable_packed_reader().one(tile, expected));
  for (int b = 0; fine && b < end; ++b) {
    Coefficients one;
    coef::natural_coefficients(expected, b, one.data());
    ASSERT_EQ(got[static_cast<size_t>(b)], one) << "block " << b;
  }
}

TEST(CoefMath, PackedTilesReadAsTheReadersDo) {
  RandomStream random(21, 0);
  for (int round = 0; round < 600; ++round) {
    const int count = 1 + static_cast<int>(random.below(coef::kMaxTileBlocks));
    const uint32_t most = 1u << (1 + random.below(16));  // of values: all widths
    std::vector<Coefficients> blocks(static_cast<size_t>(count));
    std::vector<const int16_t*> pointers;
    for (Coefficients& block : blocks) {
      block.fill(0);
      const uint32_t used = random.below(65);
      for (size_t i = 0; i < used; ++i) {
        if (random.below(3) == 0)
          block[coef::kZigzag[i]] =
              static_cast<int16_t>(static_cast<int>(random.below(most)) - static_cast<int>(most / 2));
      }
      pointers.push_back(block.data());
    }
    const std::vector<coef::ZigzagBlock> zigzag(pointers.begin(), pointers.end());
    coef::BitWriter writer;
    coef::put_packed_tile(zigzag, writer);
    std::vector<std::byte> bytes;
    const size_t size = writer.take(bytes);
    ASSERT_LE(size, static_cast<size_t>(coef::kMaxPackedTileBytes));
    bytes.resize(size + coef::kTilePadding);
    expect_the_readers_blocks(bytes, size, count, count);
    expect_the_readers_blocks(bytes, size, count,
                              1 + static_cast<int>(random.below(static_cast<uint32_t>(count))));
    for (int flips = 0; flips < 8; ++flips) {
      bytes[random.below(static_cast<uint32_t>(size))] ^= static_cast<std::byte>(1u << random.below(8));
      expect_the_readers_blocks(bytes, size, count, count);
    }
  }
}

TEST(CoefMath, TheLargestTileHasNoMoreBytesThanItsBound) {
  Coefficients block;
  for (size_t i = 0; i < 64; ++i) block[i] = static_cast<int16_t>(i % 2 == 0 ? 32'767 : -32'767);
  const std::vector<coef::ZigzagBlock> blocks(coef::kMaxTileBlocks, coef::ZigzagBlock(block.data()));
  coef::BitWriter writer;
  coef::put_packed_tile(blocks, writer);
  std::vector<std::byte> bytes;
  EXPECT_EQ(writer.take(bytes), static_cast<size_t>(coef::kMaxPackedTileBytes));
}

TEST(CoefMath, ATransformOfExtremesEqualsTheVectors) {
  RandomStream random(22, 0);
  for (int round = 0; round < 400; ++round) {
    coef::TileBlocks blocks;
    blocks.wide_count = 0;
    blocks.wide_blocks = 1;
    blocks.groups[0] = 8;
    blocks.values[0].fill(0);
    coef::QuantTable quant;
    for (int16_t& q : quant) q = static_cast<int16_t>(random.below(65'536));
    blocks.dc[0][0] = static_cast<int16_t>(random.below(65'536));
    for (uint8_t position = 1; position < 64; ++position)
      blocks.wide[static_cast<size_t>(blocks.wide_count++)] = {0, position,
                                                               static_cast<int16_t>(random.below(65'536))};
    std::array<uint8_t, 8 * (8 + coef::kRowPadding)> samples;
    constexpr ptrdiff_t kStride = 8 + coef::kRowPadding;
    coef::kernels().samples(blocks, 0, 1, quant, samples.data(), kStride);
    Coefficients data;
    coef::natural_coefficients(blocks, 0, data.data());
    for (size_t i = 0; i < 64; ++i) data[i] = coef::dequantised(data[i], quant[i]);
    for (int x = 0; x < 8; ++x) coef::inverse_transform<coef::kColumnShift>(data.data() + x, 8);
    for (int y = 0; y < 8; ++y) {
      coef::inverse_transform<coef::kRowShift>(data.data() + ptrdiff_t{8} * y, 1);
      for (int x = 0; x < 8; ++x)
        ASSERT_EQ(coef::sample_of(data[static_cast<size_t>(8 * y + x)]),
                  samples[static_cast<size_t>(y * kStride + x)]);
    }
  }
}

}  // namespace
}  // namespace dlpipe::data
