// What a GPU's kernels must not be given: a tile of more bytes than they have room for.
#include <gtest/gtest.h>

#include <vector>

#include "arithmetic/coefficients.h"
#include "io/data/codec/coef/record.h"
#include "io/data/codec/coef/tile_selection.h"

namespace dlpipe::data {

/// A grey image of one block, and so of one tile, of that many bytes.
static std::vector<std::byte> record_of_one_tile(size_t bytes) {
  coef::Frame frame;
  frame.width = frame.height = 8;
  frame.components = 1;
  frame.component[0].quant.fill(1);
  frame.tile_form = coef::TileForm::kPacked;
  EXPECT_TRUE(frame.set_geometry().ok());
  std::vector<std::byte> row;
  coef::put_length(bytes, row);
  row.resize(row.size() + bytes);
  return coef::build_record(frame, false, {row}, {}, {});
}

TEST(TileSelector, TakesTilesUpToTheLargestThatThereIs) {
  const CoefCrop crop = whole_crop({0, 0, 8, 8}, 8, 8, false, 1);
  TileSelector selector;
  coef::CoefSample sample;
  constexpr size_t kMost = coef::kMaxPackedTileBytes;
  const Result<size_t> largest = selector.select(record_of_one_tile(kMost), crop, sample);
  ASSERT_TRUE(largest.ok()) << largest.status().message();
  EXPECT_EQ(*largest, (sizeof(coef::TileRange) + kMost + 7) / 8 * 8);
  const Result<size_t> larger = selector.select(record_of_one_tile(kMost + 1), crop, sample);
  ASSERT_FALSE(larger.ok());
  EXPECT_EQ(larger.status().code(), ErrorCode::kUnsupported)
      << "the host decodes it, or says that it is corrupt";
}

}  // namespace dlpipe::data
