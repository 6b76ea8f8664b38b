#include "engine/ops/resize.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

std::vector<float> counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

void expect_values(const Tensor& got, const std::vector<double>& wanted) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 1e-4) << i;
}

// Of 3x4 pixels, 1, 2, 3, ...: the output, and the gradient of the sum of 1, 2, 3, ... times it. Both are what PyTorch's
// F.interpolate answers.
void expect_gives(const ResizeAttrs& attrs, const std::vector<double>& wanted,
                  const std::vector<double>& gradient) {
  for (const Backend backend : {Backend::kReference, Backend::kCpu}) {
    SCOPED_TRACE(backend == Backend::kCpu ? "cpu" : "reference");
    const UseBackend use(backend);
    Tensor x = Tensor::from<float>(counted(12), {1, 3, 4, 1});
    x.set_requires_grad(true);
    const Tensor y = resize(x, attrs);
    EXPECT_EQ(y.shape().to_string(), (Shape{1, attrs.size[0], attrs.size[1], 1}).to_string());
    expect_values(y, wanted);
    y.backward(Tensor::from<float>(counted(y.elements()), y.shape()));
    expect_values(x.grad(), gradient);
  }
}

TEST(ResizeOp, GivesWhatInterpolateGives) {
  expect_gives({.size = {2, 6}}, {1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8},
               {3, 3, 9, 6, 15, 9, 21, 12, 0, 0, 0, 0});
  const ResizeAttrs exact{
      .size = {2, 6}, .coordinates = ResizeCoordinates::kHalfPixel, .rounding = ResizeRounding::kPreferCeil};
  expect_gives(exact, {1, 2, 2, 3, 4, 4, 9, 10, 10, 11, 12, 12}, {1, 5, 4, 11, 0, 0, 0, 0, 7, 17, 10, 23});
  ResizeAttrs linear{
      .size = {2, 6}, .mode = ResizeMode::kLinear, .coordinates = ResizeCoordinates::kHalfPixel};
  expect_gives(linear, {2, 2.5, 3.16667, 3.83333, 4.5, 5, 8, 8.5, 9.16667, 9.83333, 10.5, 11},
               {1.5, 3.125, 4.75, 6.375, 3.25, 4.33333, 5.41667, 6.5, 8.25, 9.875, 11.5, 13.125});
  linear.coordinates = ResizeCoordinates::kAlignCorners;
  expect_gives(linear, {1, 1.6, 2.2, 2.8, 3.4, 4, 9, 9.6, 10.2, 10.8, 11.4, 12},
               {1.8, 4.4, 6.8, 8, 0, 0, 0, 0, 10.2, 14, 16.4, 16.4});
}

TEST(ResizeOp, ComputesPlacesByTheScaleThatIsGiven) {
  // 3x4 pixels by 1.5 and 0.7 are 4x2, where output over input would be 1.33 and 0.5.
  ResizeAttrs attrs{.size = {4, 2}, .scale_height = 1.5, .scale_width = 0.7};
  expect_gives(attrs, {1, 2, 1, 2, 5, 6, 9, 10}, {4, 6, 0, 0, 5, 6, 0, 0, 7, 8, 0, 0});
  attrs.mode = ResizeMode::kLinear;
  attrs.coordinates = ResizeCoordinates::kHalfPixel;
  expect_gives(attrs, {1.21429, 2.64286, 3.21429, 4.64286, 5.88095, 7.30952, 8.54762, 9.97619},
               {1.96429, 1.96429, 2.57143, 0, 5.36905, 4.44048, 5.35714, 0, 5.2381, 4.16667, 4.92857, 0});
}

TEST(ResizeOp, HasPixelsAndMiddlesToTheBit) {
  // In f32 (PyTorch's) 41 * 2/82 is less than 1.
  ResizePlaces axis = resize_places({1, 2, 1, 1}, {.size = {82, 1}}, 0);
  EXPECT_EQ(axis.place(40).first, 0);
  EXPECT_EQ(axis.place(41).first, 1);
  // Nor is 3 by 0.6, whose f32 is a little more, less than 5.
  axis = resize_places({1, 7, 1, 1}, {.size = {4, 1}, .scale_height = 0.6f}, 0);
  EXPECT_EQ(axis.place(3).first, 5);
  // The middle of two pixels belongs to either, as the rounding says.
  ResizeAttrs halves{.size = {3, 1}, .coordinates = ResizeCoordinates::kHalfPixel};
  const auto middles = [&](ResizeRounding rounding) {
    halves.rounding = rounding;
    axis = resize_places({1, 6, 1, 1}, halves, 0);  // 0.5, 2.5, 4.5
    return std::vector<int>{axis.place(0).first, axis.place(1).first, axis.place(2).first};
  };
  EXPECT_EQ(middles(ResizeRounding::kFloor), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(middles(ResizeRounding::kPreferFloor), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(middles(ResizeRounding::kCeil), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(middles(ResizeRounding::kPreferCeil), (std::vector<int>{1, 3, 5}));
}

TEST(ResizeOp, HasTheMiddlesOfBothAtOnePlaceWhereTheyAreSymmetric) {
  // What ONNX's reference and ONNX Runtime answer. 9 pixels by 0.6 are 5, whose middle is the fifth of the 9, to the bit.
  const auto pixels = [](int in, int out, double scale, ResizeRounding rounding) {
    const ResizeAttrs attrs{.size = {1, out},
                            .coordinates = ResizeCoordinates::kHalfPixelSymmetric,
                            .rounding = rounding,
                            .scale_width = scale};
    const ResizePlaces axis = resize_places({1, 1, in, 1}, attrs, 1);
    std::vector<int> firsts;
    for (int i = 0; i < out; ++i) firsts.push_back(axis.place(i).first);
    return firsts;
  };
  EXPECT_EQ(pixels(9, 5, 0.6f, ResizeRounding::kCeil), (std::vector<int>{1, 3, 4, 6, 8}));
  EXPECT_EQ(pixels(3, 4, 1.5f, ResizeRounding::kFloor), (std::vector<int>{0, 0, 1, 2}));
}

TEST(ResizeOp, SearchesFindThePixelsThatReadOne) {
  for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kLinear}) {
    for (const int out : {1, 3, 7, 8, 20}) {
      ResizeAttrs attrs{.size = {out, 1}, .mode = mode, .coordinates = ResizeCoordinates::kHalfPixel};
      const ResizePlaces axis = resize_places({1, 7, 1, 1}, attrs, 0);
      for (int pixel = 0; pixel < 7; ++pixel) {
        for (int i = 0; i < out; ++i) {
          const ResizePlace place = axis.place(i);
          EXPECT_EQ(i >= axis.from(pixel) && i < axis.after(pixel),
                    place.first <= pixel && place.second >= pixel);
        }
      }
    }
  }
}

void expect_refusal(const TensorSpec& x, const ResizeAttrs& attrs, const std::string& words) {
  try {
    resize(Tensor::empty(x), attrs);
    FAIL() << "no error: " << words;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(ResizeOp, RefusesWhatIsNoImageOrSize) {
  const TensorSpec images{{1, 2, 2, 3}};
  expect_refusal({{2, 2, 3}}, {}, "[resize] expected floating images [N,H,W,C], got f32 [2,2,3]");
  expect_refusal({{1, 2, 2, 3}, DType::kU8}, {}, "got u8 [1,2,2,3]");
  expect_refusal({{1, 0, 2, 3}}, {}, "at least one pixel");
  expect_refusal(images, {.size = {0, 4}}, "expected a size of at least 1x1, got 0x4");
  expect_refusal(images, {.size = {4, 4}, .scale_width = -2},
                 "scale that turns 2 pixels into 4, or 0 for output / input, got -2");
  expect_refusal(images, {.size = {1, 1}, .scale_width = -1e-9}, "got -1e-09");
  // Places by a scale that isn't theirs are nowhere: this one's are NaN.
  expect_refusal(
      images, {.size = {4, 4}, .coordinates = ResizeCoordinates::kHalfPixelSymmetric, .scale_height = 1e-310},
      "scale that turns 2 pixels into 4");
}

}  // namespace
}  // namespace dlpipe::engine
