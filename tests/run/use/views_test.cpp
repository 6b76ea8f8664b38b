// Test-time augmentation: which views of an image a model is shown.
#include "run/use/evaluate.h"

#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::run {
namespace {

using engine::Tensor;

/// Answers the upper left pixel, and keeps the sizes that it was shown.
class FirstPixel : public engine::Module {
 public:
  Tensor forward(const Tensor& x) override {
    sizes.push_back({x.size(1), x.size(2)});
    return engine::reshape(engine::slice(engine::slice(x, 1, 0, 1), 2, 0, 1).contiguous_copy(),
                           {x.size(0), x.size(3)});
  }
  std::string kind() const override { return "FirstPixel"; }

  std::vector<std::vector<int64_t>> sizes;
};

/// Pixels that say where they are: channel 0 is y, channel 1 is x.
Tensor places(int64_t height, int64_t width) {
  Tensor pixels = Tensor::empty({1, height, width, 2}, DType::kF32);
  float* to = pixels.data<float>();
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      *to++ = static_cast<float>(y);
      *to++ = static_cast<float>(x);
    }
  }
  return pixels;
}

TEST(Views, FiveCropShowsCornersAndCentre) {
  FirstPixel model;
  const Tensor logits = view_logits(model, places(32, 48), Views::kFiveCrop);
  EXPECT_EQ(model.sizes, (std::vector<std::vector<int64_t>>(5, {28, 42})));
  EXPECT_FLOAT_EQ(logits.data<float>()[0], (0 + 0 + 4 + 4 + 2) / 5.0f);
  EXPECT_FLOAT_EQ(logits.data<float>()[1], (0 + 6 + 0 + 6 + 3) / 5.0f);
}

TEST(Views, TenCropShowsEachMirroredToo) {
  FirstPixel model;
  const Tensor logits = view_logits(model, places(32, 48), Views::kTenCrop);
  EXPECT_EQ(model.sizes, (std::vector<std::vector<int64_t>>(10, {28, 42})));
  EXPECT_FLOAT_EQ(logits.data<float>()[0], (0 + 0 + 4 + 4 + 2) / 5.0f);
  // Mirrored, the first pixel is the last one of the crop's first row: 41 to the right.
  EXPECT_FLOAT_EQ(logits.data<float>()[1], (0 + 6 + 0 + 6 + 3) / 5.0f + 41 / 2.0f);
}

TEST(Views, CentreIsTorchvisionsWhereTheRestIsOdd) {
  FirstPixel model;  // 24 of 28 wide: 2; 21 of 24 high: 3 left over, 1.5 goes to 2
  const Tensor logits = view_logits(model, places(24, 28), Views::kFiveCrop);
  EXPECT_FLOAT_EQ(logits.data<float>()[0], (0 + 0 + 3 + 3 + 2) / 5.0f);
  EXPECT_FLOAT_EQ(logits.data<float>()[1], (0 + 4 + 0 + 4 + 2) / 5.0f);
}

TEST(Views, NamesAreKnown) {
  EXPECT_EQ(value_or_throw(parse_views("five_crop")), Views::kFiveCrop);
  EXPECT_EQ(value_or_throw(parse_views("ten_crop")), Views::kTenCrop);
}

}  // namespace
}  // namespace dlpipe::run
