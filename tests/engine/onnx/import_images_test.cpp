// Ops of images of ONNX one by one, on numbers that can be followed by hand: norms, convolutions, pools and sizes.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/engine/onnx/one_node.h"

namespace dlpipe::engine::onnx {
namespace {

TEST(OnnxOps, TakesLinesAsImagesOfOneRow) {
  const auto pooled = [](const char* op) { return OneNode(op).input({1, 2, 3}, {1, 2, 6, -1, -2, 0}); };
  expect_gives(pooled("GlobalAveragePool"), {1, 2, 1}, {3, -1});
  expect_gives(pooled("GlobalMaxPool"), {1, 2, 1}, {6, 0});
  expect_gives(OneNode("BatchNormalization")
                   .input({1, 2, 2})
                   .weights({2}, {2, 1})
                   .weights({2}, {0, 5})
                   .weights({2}, {1, 3})
                   .weights({2}, {1, 1})
                   .with_float("epsilon", 0),
               {1, 2, 2}, {0, 2, 5, 6});
}

TEST(OnnxOps, RefusesBatchNormThatTrains) {
  const auto norm = [](int64_t opset) {
    return OneNode("BatchNormalization", opset)
        .input({1, 2})
        .weights({2})
        .weights({2})
        .weights({2}, {0, 0})
        .weights({2}, {1, 1})
        .with_float("epsilon", 0);
  };
  expect_gives(norm(9), {1, 2}, {2, 6});
  expect_op_refused(norm(9).second_output(), "it is in training mode");
  expect_op_refused(norm(15).with("training_mode", 1), "it is in training mode");
}

TEST(OnnxOps, ConvolvesAndPools) {
  const std::vector<float> sum = {1, 1, 1, 1};
  const auto conv = [&] { return OneNode("Conv").input({1, 1, 2, 3}).weights({1, 1, 2, 2}, sum); };
  expect_gives(conv(), {1, 1, 1, 2}, {12, 16});
  expect_gives(conv().with_text("auto_pad", "SAME_UPPER"), {1, 1, 2, 3}, {12, 16, 9, 9, 11, 6});
  expect_gives(conv().with_text("auto_pad", "SAME_LOWER"), {1, 1, 2, 3}, {1, 3, 5, 5, 12, 16});
  expect_gives(conv().with_ints("pads", {1, 0, 0, 1}), {1, 1, 2, 3}, {3, 5, 3, 12, 16, 9});
  expect_gives(conv().weights({1}, {100}).with_ints("strides", {1, 2}), {1, 1, 1, 1}, {112});
  // A line [N,C,W], its two channels in groups of their own.
  expect_gives(OneNode("Conv")
                   .input({1, 2, 3})
                   .weights({2, 1, 2}, {1, 1, 1, 2})
                   .with("group", 2)
                   .with_ints("pads", {1, 0}),
               {1, 2, 3}, {1, 3, 5, 8, 14, 17});
  const auto pool = [](const char* op) {
    return OneNode(op).input({1, 1, 2, 3}).with_ints("kernel_shape", {2, 2});
  };
  expect_gives(pool("MaxPool"), {1, 1, 1, 2}, {5, 6});
  expect_gives(pool("MaxPool").with_ints("pads", {0, 0, 1, 1}), {1, 1, 2, 3}, {5, 6, 6, 5, 6, 6});
  expect_gives(pool("AveragePool").with_ints("pads", {0, 0, 1, 1}), {1, 1, 2, 3}, {3, 4, 4.5, 4.5, 5.5, 6});
  expect_gives(pool("AveragePool").with_ints("pads", {0, 0, 1, 1}).with("count_include_pad", 1), {1, 1, 2, 3},
               {3, 4, 2.25, 2.25, 2.75, 1.5});
  expect_gives(OneNode("GlobalAveragePool").input({1, 2, 1, 2}), {1, 2, 1, 1}, {1.5, 3.5});
  expect_gives(OneNode("BatchNormalization")
                   .input({1, 2, 1, 1}, {3, 5})
                   .weights({2}, {1, 2})
                   .weights({2}, {0, 1})
                   .weights({2}, {1, 1})
                   .weights({2}, {4, 4})
                   .with_float("epsilon", 0),
               {1, 2, 1, 1}, {1, 5});
}

// Two pixels 1, 2 and a row of weights 1, 2, 3 without pads, by 2: 1, 2, 3 + 2, 4, 6. What the node says of its edges is cut
// off that, or rows of zeros are put behind.
TEST(OnnxOps, TransposesConvolutionsToTheSizeAskedFor) {
  const auto transposed = [] {
    return OneNode("ConvTranspose").input({1, 1, 1, 2}).weights({1, 1, 1, 3}).with_ints("strides", {1, 2});
  };
  const auto padded = [&](int64_t before, int64_t behind) {
    return transposed().with_ints("pads", {0, before, 0, behind});
  };
  expect_gives(transposed(), {1, 1, 1, 5}, {1, 2, 5, 4, 6});
  expect_gives(padded(1, 0), {1, 1, 1, 4}, {2, 5, 4, 6});
  expect_gives(padded(0, 2), {1, 1, 1, 3}, {1, 2, 5});
  expect_gives(padded(1, 1).with_ints("output_padding", {0, 1}), {1, 1, 1, 4}, {2, 5, 4, 6});
  expect_gives(padded(0, 1).with_ints("output_padding", {0, 1}), {1, 1, 1, 5}, {1, 2, 5, 4, 6});
  expect_gives(transposed().with_ints("output_padding", {0, 1}), {1, 1, 1, 6}, {1, 2, 5, 4, 6, 0});
  expect_gives(padded(0, 4), {1, 1, 1, 1}, {1});
  expect_gives(padded(4, 0), {1, 1, 1, 1}, {6});
  for (const auto& [before, behind] : {std::pair<int64_t, int64_t>{0, 5}, {0, 7}, {1, 7}, {5, 0}, {9, 0}})
    expect_op_refused(padded(before, behind), "remove all 5 pixels");
  expect_op_refused(padded(3, 3), "with an output larger than the padding");
  const auto same = [&](const char* word) { return transposed().with_text("auto_pad", word); };
  expect_gives(same("SAME_UPPER"), {1, 1, 1, 4}, {1, 2, 5, 4});
  expect_gives(same("SAME_LOWER"), {1, 1, 1, 4}, {2, 5, 4, 6});
  expect_gives(same("VALID"), {1, 1, 1, 5}, {1, 2, 5, 4, 6});
  expect_gives(transposed().with_ints("output_shape", {1, 3}), {1, 1, 1, 3}, {2, 5, 4});
  expect_gives(OneNode("ConvTranspose").input({1, 1, 2}).weights({1, 1, 3}).with_ints("strides", {2}),
               {1, 1, 5}, {1, 2, 5, 4, 6});
  expect_gives(transposed().with_ints("output_shape", {1, 6}), {1, 1, 1, 6}, {1, 2, 5, 4, 6, 0});
  expect_op_refused(transposed().with_ints("output_shape", {1, 7}),
                    "it can turn 2 pixels into at most 6, not 7");
  expect_op_refused(transposed().with_ints("output_shape", {1, 0}), "not 0");
  expect_op_refused(transposed().with_ints("output_shape", {6}), "two sizes in output_shape");
  expect_op_refused(transposed().weights({2}), "expected a bias [1], got [2]");
  expect_op_refused(same("SAME"), "its auto_pad is 'SAME'");
}

// Numbers of the ONNX project's own tests, most of them; PyTorch's are in tests/engine/ops/resize_test.cpp.
TEST(OnnxOps, ResizesByScalesAndSizes) {
  const auto by_scales = [](const Shape& shape, float height, float width) {
    return OneNode("Resize").input(shape).left_out().weights({4}, {1, 1, height, width});
  };
  const std::vector<double> wide = {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4};
  expect_gives(by_scales({1, 1, 2, 2}, 2, 3), {1, 1, 4, 6}, wide);
  expect_gives(by_scales({1, 1, 2, 2}, 2, 2).with_text("mode", "linear"), {1, 1, 4, 4},
               {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  // By 0.6, 2x4 pixels are 1x2; places are those of 0.6.
  const auto less = [&] { return by_scales({1, 1, 2, 4}, 0.6f, 0.6f).with_text("mode", "linear"); };
  expect_gives(less(), {1, 1, 1, 2}, {2.6666665, 4.3333331});
  const char* const coordinates = "coordinate_transformation_mode";
  expect_op_refused(less().with_text(coordinates, "align_corners"),
                    "its scale 0.6 of 2 pixels is not a whole number");
  expect_op_refused(by_scales({1, 1, 1, 4}, 1, 0.4f).with_text(coordinates, "pytorch_half_pixel"),
                    "its scale 0.4 of 4 pixels is not a whole number, and pytorch_half_pixel");
  const auto by_sizes = [](const Shape& shape, int64_t height, int64_t width, int64_t opset = 17) {
    return OneNode("Resize", opset).input(shape).left_out().left_out().known({1, 1, height, width});
  };
  expect_gives(
      by_sizes({1, 1, 4, 4}, 3, 1).with_text("mode", "linear").with_text(coordinates, "pytorch_half_pixel"),
      {1, 1, 3, 1}, {1.6666666, 7, 12.333333});
  // Two thirds, in f32, of six pixels: the third is the fourth of those, at 3 and not at 2.9999999.
  expect_gives(by_scales({1, 1, 1, 6}, 1, 2.0f / 3)
                   .with_text(coordinates, "asymmetric")
                   .with_text("nearest_mode", "floor"),
               {1, 1, 1, 4}, {1, 2, 4, 5});
  expect_gives(by_sizes({1, 1, 1, 3}, 1, 3).then("Relu"), {1, 1, 1, 3}, {1, 2, 3});
  const auto by_axes = [](std::vector<int64_t> sizes, const char* policy) {
    return OneNode("Resize", 18)
        .input({1, 1, 2, 2})
        .left_out()
        .left_out()
        .known(sizes)
        .with_ints("axes", {3, -2})
        .with_text("keep_aspect_ratio_policy", policy);
  };
  expect_gives(by_axes({6, 4}, "stretch"), {1, 1, 4, 6}, wide);
  expect_gives(by_axes({3, 4}, "not_larger"), {1, 1, 3, 3}, {1, 1, 2, 1, 1, 2, 3, 3, 4});
  expect_gives(by_axes({2, 3}, "not_smaller"), {1, 1, 3, 3}, {1, 1, 2, 1, 1, 2, 3, 3, 4});
  expect_gives(OneNode("Upsample", 9).input({1, 1, 2, 2}).weights({4}, {1, 1, 2, 3}), {1, 1, 4, 6}, wide);
  expect_gives(OneNode("Upsample", 7).input({1, 1, 2, 2}).with_floats("scales", {1, 1, 2, 3}), {1, 1, 4, 6},
               wide);
  expect_gives(
      OneNode("Resize", 10).input({1, 1, 1, 2}).weights({4}, {1, 1, 1, 2}).with_text("mode", "linear"),
      {1, 1, 1, 4}, {1, 1.5, 2, 2});
  // The pixel behind 5/3 and 10/3.
  expect_gives(OneNode("Resize", 10).input({1, 1, 1, 5}).weights({4}, {1, 1, 1, 0.6f}), {1, 1, 1, 3},
               {1, 3, 5});
  const std::vector<Tensor> middle =
      less().with_text(coordinates, "half_pixel_symmetric").run();  // of opset 19: export writes 17
  expect_tensor(middle[0], {1, 1, 1, 2}, {3.6666667, 5.3333333});

  const auto resized = [] { return OneNode("Resize").input({1, 2, 4, 4}).left_out(); };
  const auto doubled = [&] { return resized().weights({4}, {1, 1, 2, 2}); };
  expect_op_refused(doubled().with_text("mode", "cubic"),
                    "its mode is 'cubic'; dlpipe supports nearest, linear");
  expect_op_refused(doubled().with("antialias", 1), "antialias");
  expect_op_refused(doubled().with("exclude_outside", 1), "exclude_outside");
  expect_op_refused(doubled().with_text(coordinates, "tf_crop_and_resize"), "'tf_crop_and_resize'");
  expect_op_refused(resized().weights({4}, {1, 2, 2, 2}), "it changes the batch or the channels");
  expect_op_refused(resized().weights({4}, {2, 1, 2, 2}), "it changes the batch or the channels");
  expect_op_refused(resized().weights({4}, {1, 1, 0, 2}), "impossible sizes");
  expect_op_refused(resized().weights({4}, {1, 1, 0.1f, 2}), "impossible sizes");
  expect_op_refused(resized().weights({2}, {2, 2}), "expected 4 scales, got 2");
  expect_op_refused(resized().input({4}), "input 2 is not known before the model runs");
  expect_op_refused(resized(), "expected scales or sizes");
  expect_op_refused(doubled().known({1, 2, 8, 8}), "expected scales or sizes");
  expect_op_refused(by_sizes({1, 1, 4, 4}, -3, 1), "impossible sizes");
  expect_op_refused(by_sizes({1, 1, 4, 4}, int64_t{1} << 30, int64_t{1} << 30), "impossible sizes");
  expect_op_refused(OneNode("Resize").input({1, 2, 4}).left_out().weights({3}), "expected images [N,C,H,W]");
  expect_op_refused(by_axes({3, 4}, "larger"), "its keep_aspect_ratio_policy is 'larger'");
  expect_op_refused(OneNode("Upsample", 9).input({1, 1, 2, 2}).weights({4}, {1, 1, 2, 0.5f}),
                    "one side longer and the other shorter");
}

}  // namespace
}  // namespace dlpipe::engine::onnx
