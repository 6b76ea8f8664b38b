// Ops of ONNX one by one, on numbers that can be followed by hand. (ONNX's own tests of each op judge the importer in
// tests/interop/onnx_nodes.py; they take a minute and a half.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/ops.h"
#include "tests/engine/onnx/one_node.h"

namespace dlpipe::engine::onnx {
namespace {

TEST(OnnxOps, PadsByEveryMode) {
  const auto padded = [](const char* mode, int64_t before, int64_t behind) {
    return OneNode("Pad").input({1, 3}).with_ints("pads", {0, before, 0, behind}).with_text("mode", mode);
  };
  expect_gives(padded("constant", 1, 2).with_float("value", 9), {1, 6}, {9, 1, 2, 3, 9, 9});
  expect_gives(padded("edge", 1, 2), {1, 6}, {1, 1, 2, 3, 3, 3});
  expect_gives(padded("reflect", 1, 2), {1, 6}, {2, 1, 2, 3, 2, 1});
  expect_gives(padded("wrap", 1, 2), {1, 6}, {3, 1, 2, 3, 1, 2});
  expect_gives(padded("wrap", 0, 1), {1, 4}, {1, 2, 3, 1});
  expect_gives(padded("wrap", 3, 0), {1, 6}, {1, 2, 3, 1, 2, 3});
  expect_gives(padded("constant", -1, 1), {1, 3}, {2, 3, 0});
  expect_gives(padded("constant", 1, -2), {1, 2}, {0, 1});
  expect_gives(OneNode("Pad", 18).input({1, 3}).known({2, 0}).left_out().known({-1}), {1, 5},
               {0, 0, 1, 2, 3});
  expect_op_refused(padded("reflect", 3, 0), "pads each side by less than the axis's size");
  expect_op_refused(padded("wrap", 0, 4), "wraps around an axis only once");
  expect_op_refused(padded("mirror", 1, 1), "its mode is 'mirror'");
}

TEST(OnnxOps, RepeatsAndTradesChannelsForPixels) {
  expect_gives(OneNode("Tile").input({1, 2}).known({2, 3}), {2, 6}, {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2});
  expect_op_refused(OneNode("Tile").input({1, 2}).known({2}), "expected a number per axis");
  // Eight channels of one pixel: two of 2x2. DCR: channel (row * 2 + column) * 2 + c; CRD: c * 4 + row * 2 + column.
  const auto to_space = [](const char* mode) {
    return OneNode("DepthToSpace").input({1, 8, 1, 1}).with("blocksize", 2).with_text("mode", mode);
  };
  expect_gives(to_space("DCR"), {1, 2, 2, 2}, {1, 3, 5, 7, 2, 4, 6, 8});
  expect_gives(to_space("CRD"), {1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  // Of images that aren't square: 1x2 pixels of four channels are 2x4 of one.
  expect_gives(OneNode("DepthToSpace").input({1, 4, 1, 2}).with("blocksize", 2), {1, 1, 2, 4},
               {1, 3, 2, 4, 5, 7, 6, 8});
  expect_gives(OneNode("SpaceToDepth").input({1, 1, 2, 4}).with("blocksize", 2), {1, 4, 1, 2},
               {1, 3, 2, 4, 5, 7, 6, 8});
  expect_op_refused(OneNode("DepthToSpace").input({1, 6, 1, 1}).with("blocksize", 2), "2 x 2 divides");
  expect_op_refused(OneNode("SpaceToDepth").input({1, 1, 2, 3}).with("blocksize", 2), "got 2x3");
}

TEST(OnnxOps, CutsBackwards) {
  const auto cut = [](const Shape& shape, int64_t begin, int64_t end, int64_t axis, int64_t step) {
    return OneNode("Slice").input(shape).known({begin}).known({end}).known({axis}).known({step});
  };
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  expect_gives(cut({4}, -1, kFirst, 0, -1), {4}, {4, 3, 2, 1});
  expect_gives(cut({4}, 2, 0, 0, -1), {2}, {3, 2});
  expect_gives(cut({5}, 100, -100, 0, -2), {3}, {5, 3, 1});
  expect_gives(cut({2, 3}, 1, kFirst, 1, -1), {2, 2}, {2, 1, 5, 4});
  expect_gives(cut({2, 3}, -1, kFirst, 0, -1), {2, 3}, {4, 5, 6, 1, 2, 3});
  expect_gives(cut({5}, 0, 5, 0, 2), {3}, {1, 3, 5});
  expect_op_refused(cut({4}, 0, 4, 0, 0), "its step is 0");
  // Of integers that are known, as exporters turn the pads of an image around.
  const auto pads = [] { return OneNode("Reshape").known({1, 2, 3, 4}).known({2, 2}); };
  expect_gives(pads().then("Slice").known({-1}).known({kFirst}).known({0}).known({-1}), {2, 2}, {3, 4, 1, 2});
  expect_gives(pads().then("Transpose"), {2, 2}, {1, 3, 2, 4});
  expect_op_refused(pads().then("Transpose").with_ints("perm", {0, 0}), "isn't each of the 2 axes once");
  expect_gives(pads().then("Concat").known_of({2, 1}, {8, 9}).with("axis", 1), {2, 3}, {1, 2, 8, 3, 4, 9});
  expect_gives(pads().then("Expand").known({2, 1, 2}), {2, 2, 2}, {1, 2, 3, 4, 1, 2, 3, 4});
  expect_op_refused(pads().then("Concat").known({8}).with("axis", 0), "don't have the same axes");
  expect_op_refused(pads().then("Concat").known_of({1, 2}, {8, 9}).with("axis", 1),
                    "don't have the same sizes");
}

TEST(OnnxOps, LooksUpManyPlaces) {
  // 20 places of the middle axis of [1,2,2], in the shape [2,10].
  std::vector<int64_t> places;
  std::vector<double> wanted;
  for (int64_t i = 0; i < 20; ++i) {
    places.push_back(i % 2 - 2);  // from behind
    wanted.push_back(i % 2 == 0 ? 1 : 3);
    wanted.push_back(i % 2 == 0 ? 2 : 4);
  }
  expect_gives(OneNode("Gather").input({1, 2, 2}).known_of({2, 10}, places).with("axis", 1), {1, 2, 10, 2},
               wanted);
  expect_gives(OneNode("Gather").input({3, 2}).known_of({2, 2}, {2, 0, 0, 1}), {2, 2, 2},
               {5, 6, 1, 2, 1, 2, 3, 4});
}

TEST(OnnxOps, ScattersKnownPlaces) {
  const auto scattered = [](const Shape& shape) { return OneNode("ScatterND").input(shape); };
  expect_gives(scattered({4}).known_of({2, 1}, {3, 1}).weights({2}, {9, 8}), {4}, {1, 8, 3, 9});
  expect_gives(scattered({2, 2}).known_of({1, 1}, {-1}).weights({1, 2}, {7, 8}), {2, 2}, {1, 2, 7, 8});
  expect_gives(scattered({2, 2}).known_of({2, 2}, {0, 1, 1, 0}).weights({2}, {7, 8}), {2, 2}, {1, 7, 8, 4});
  expect_op_refused(scattered({2}).known_of({1, 1}, {2}).weights({1}), "index 2 is outside axis 0 of [2]");
  expect_op_refused(scattered({2}).known_of({1, 2}, {0, 0}).weights({1}), "its indices don't fit [2]");
  expect_op_refused(scattered({2}).known_of({1, 1}, {0}).weights({2}), "expected 1 x 1 new values");
  expect_op_refused(scattered({2}).known_of({1, 1}, {0}).weights({1}).with_text("reduction", "add"),
                    "its reduction is 'add'");
}

// More than one concat of dlpipe's takes: those are joined in turn.
TEST(OnnxOps, JoinsAnyNumberOfPieces) {
  constexpr int64_t kCount = 2 * OpRecord::kMostInputs + 1;
  const std::vector<double> counted = all_of(ramp(kCount));
  expect_gives(OneNode("Concat").counted_inputs({1, 1}, 1, kCount), {1, kCount}, counted);
  // Images, as DenseNet's blocks join them.
  expect_gives(
      OneNode("GlobalMaxPool").input({1, 1, 1, 1}).then("Concat").counted_inputs({1, 1, 1, 1}, 2, kCount - 1),
      {1, kCount, 1, 1}, counted);
  const std::vector<double> ones(kCount, 1.0);
  expect_gives(OneNode("Tile").input({1, 1}).known({kCount, 1}), {kCount, 1}, ones);
  std::vector<int64_t> places(kCount);
  std::iota(places.rbegin(), places.rend(), 0);
  expect_gives(OneNode("Gather").input({kCount}).known(places), {kCount}, {counted.rbegin(), counted.rend()});
  std::vector<double> reflected(counted.rbegin(), counted.rend());
  reflected.insert(reflected.end(), counted.begin() + 1, counted.end());
  reflected.insert(reflected.end(), counted.rbegin() + 1, counted.rend());
  expect_gives(
      OneNode("Pad").input({kCount}).with_ints("pads", {kCount - 1, kCount - 1}).with_text("mode", "reflect"),
      {3 * kCount - 2}, reflected);
  expect_op_refused(OneNode("Tile").input({1}).known({1 << 20}), "1 to 1024 times, got 1048576");
}

TEST(OnnxOps, MultipliesMatricesAndVectors) {
  expect_gives(OneNode("MatMul").input({2, 3}).input({3, 1}), {2, 1}, {14, 32});
  expect_gives(OneNode("MatMul").input({3}).input({3, 2}), {2}, {22, 28});
  expect_gives(OneNode("MatMul").input({2, 3}).input({3}), {2}, {14, 32});
  expect_gives(OneNode("MatMul").input({3}).input({3}), {}, {14});
  expect_gives(OneNode("MatMul").input({2, 2, 2}).input({2}), {2, 2}, {5, 11, 17, 23});
  expect_gives(OneNode("MatMul").input({2}).input({2, 2, 2}), {2, 2}, {7, 10, 19, 22});
  expect_gives(OneNode("MatMul").input({2, 1, 2}).input({2, 3}), {2, 1, 3}, {9, 12, 15, 19, 26, 33});
  const auto gemm = [] { return OneNode("Gemm").input({1, 2}); };
  expect_gives(gemm().weights({2, 2}), {1, 2}, {7, 10});
  expect_gives(gemm().weights({2, 2}).weights({2}).with("transB", 1), {1, 2}, {6, 13});
  expect_gives(gemm().weights({2, 2}).weights({1}).with_float("alpha", 2).with_float("beta", 3), {1, 2},
               {17, 23});
  expect_gives(OneNode("Gemm").input({2, 1}).weights({2, 2}).with("transA", 1), {1, 2}, {7, 10});
}

// Numbers behind other nodes, of constants and sizes.
TEST(OnnxOps, TakesNumbersThatNodesMakeOfConstants) {
  const std::vector<float> signs = {-1, 0, 2};
  expect_gives(OneNode("Identity").weights({}, {0}).then("Clip").input({3}, signs).reading({"x1", "m1"}), {3},
               {0, 0, 2});
  expect_gives(
      OneNode("Cast").known_one(0).with("to", 1).then("Clip").input({3}, signs).reading({"x1", "m1"}), {3},
      {0, 0, 2});
  expect_gives(OneNode("Cast").known_one(2).with("to", 1).then("Pow").input({3}, signs).reading({"x1", "m1"}),
               {3}, {1, 0, 4});
  expect_gives(OneNode("Sqrt").weights({1}, {4}).then("Pow").input({3}, signs).reading({"x1", "m1"}), {3},
               {1, 0, 4});
  expect_gives(OneNode("Cast").weights({2}, {1.9F, -1.9F}).with("to", 7).then("Add").known({1}), {2}, {2, 0});
  // One that isn't finite is no integer that is known.
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(OneNode("Cast").weights({1}, {infinity}).with("to", 7).run().size(), 1u);
}

// Dropout of a constant draws in every run, so no node may read the numbers of the capture.
TEST(OnnxOps, RandomValuesOfConstantsAreNotConstants) {
  const auto refused = [](const Model& model) {
    try {
      import_model(model, {.training = true});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("input 1 is not one number that is known"), std::string::npos)
          << error.what();
      return error.code() == ErrorCode::kUnsupported;
    }
    return false;
  };
  const auto clip = [](OneNode&& random, const char* x) {
    return std::move(random).then("Clip").input({3}).reading({x, "m1"}).model();
  };
  EXPECT_TRUE(refused(clip(OneNode("Dropout").weights({}, {4}).weights({}, {0.5F}).known_one(1), "x3")));
  Model path =
      clip(OneNode("DropPath").weights({1}, {4}).with_float("ratio", 0.5F).with_ints("sizes", {1}), "x1");
  path.nodes[0].domain = "dlpipe";
  EXPECT_TRUE(refused(path));
}

// Of sizes that pass through floats.
TEST(OnnxOps, CountsAndResizesBySizesAsFloats) {
  const auto counted = [](int64_t first, int64_t behind) {
    return OneNode("Shape")
        .input({2, 4})
        .any_batch()
        .with("start", first)
        .with("end", behind)
        .then("Cast")
        .with("to", 1)
        .then("Range")
        .weights({}, {0.5F})
        .weights({}, {1.5F})
        .reading({"w1", "m2", "w2"});
  };
  expect_gives(counted(1, 2), {3}, {0.5, 2, 3.5});
  expect_op_refused(counted(0, 1), "input 1 is not one number that is known before the model runs");
  const auto doubled = [](int64_t first, std::vector<int64_t> before) {
    return OneNode("Shape")
        .input({1, 1, 1, 2})
        .with("start", first)
        .then("Cast")
        .with("to", 1)
        .then("Mul")
        .weights({1}, {2})
        .then("Cast")
        .with("to", 7)
        .then("Concat")
        .with("axis", 0)
        .known_first(std::move(before))
        .then("Resize")
        .reading({"x0", "", "", "m5"});
  };
  expect_gives(doubled(2, {1, 1}), {1, 1, 2, 4}, {1, 1, 2, 2, 1, 1, 2, 2});
}

TEST(OnnxOps, RaisesToTheAxesOfTheExponent) {
  expect_gives(OneNode("Pow").input({2, 2}).weights({1, 1}, {2}), {2, 2}, {1, 4, 9, 16});
  expect_gives(OneNode("Pow").input({2, 2}).weights({1, 1, 1}, {2}), {1, 2, 2}, {1, 4, 9, 16});
  expect_gives(OneNode("GlobalMaxPool").input({1, 2, 1, 2}).then("Pow").weights({1, 1, 1, 1, 1}, {-1}),
               {1, 1, 2, 1, 1}, {0.5, 0.25});
}

TEST(OnnxOps, ReducesAlongAxes) {
  expect_gives(OneNode("ReduceSum", 13).input({2, 3}).known({1}), {2, 1}, {6, 15});
  expect_gives(OneNode("ReduceSum", 13).input({2, 3}).known({-2}).with("keepdims", 0), {3}, {5, 7, 9});
  expect_gives(OneNode("ReduceMean").input({2, 3}).with("keepdims", 0), {}, {3.5});
  expect_gives(OneNode("ReduceMax").input({2, 3}).with("keepdims", 0), {}, {6});
  expect_gives(OneNode("ReduceMin").input({2, 3}).with_ints("axes", {0}), {1, 3}, {1, 2, 3});
  expect_gives(OneNode("ReduceL2").input({1, 2}, {3, -4}).with_ints("axes", {1}), {1, 1}, {5});
  expect_gives(OneNode("ReduceL1").input({1, 2}, {3, -4}).with_ints("axes", {1}), {1, 1}, {7});
  expect_gives(OneNode("ReduceLogSumExp").input({1, 2}, {100, 100}).with_ints("axes", {1}), {1, 1},
               {100.6931472});
  // Of what has no finite largest element: log(0), and infinity.
  const float infinity = std::numeric_limits<float>::infinity();
  const OneNode of_infinities = OneNode("ReduceLogSumExp")
                                    .input({3, 2}, {-infinity, -infinity, infinity, 1, -infinity, 1})
                                    .with_ints("axes", {1})
                                    .with("keepdims", 0);
  EXPECT_EQ(of_infinities.run()[0].to_doubles(), (std::vector<double>{-infinity, infinity, 1}));
  // Nothing to reduce, where that is said; else no axes are all.
  expect_gives(OneNode("ReduceSum", 13).input({2}).with("noop_with_empty_axes", 1), {2}, {1, 2});
  expect_op_refused(OneNode("ReduceL1", 18).input({2}).with("noop_with_empty_axes", 1),
                    "noop_with_empty_axes");
  // Of images, which lie in another order here: 2 channels of 1x2 pixels.
  const auto of_image = [] { return OneNode("GlobalMaxPool").input({1, 2, 1, 2}); };
  expect_gives(of_image(), {1, 2, 1, 1}, {2, 4});
  expect_gives(of_image().then("ReduceSum").known({1}), {1, 1, 1, 1}, {6});
  expect_gives(of_image().then("ReduceSum").known({2, 3}).with("keepdims", 0), {1, 2}, {2, 4});
  expect_gives(of_image().then("ReduceSum").known({1}).with("keepdims", 0), {1, 1, 1}, {6});
}

TEST(OnnxOps, JoinsTheAxesOfASoftmaxBeforeOpset13) {
  const auto softmax = [](int64_t opset, const Shape& shape) {
    return OneNode("Softmax", opset).input(shape, std::vector<float>(static_cast<size_t>(shape.elements())));
  };
  expect_gives(softmax(11, {2, 1, 4}), {2, 1, 4}, std::vector<double>(8, 0.25));
  expect_gives(softmax(11, {2, 2, 2}), {2, 2, 2}, std::vector<double>(8, 0.25));
  expect_gives(softmax(11, {2, 2, 2}).with("axis", 0), {2, 2, 2}, std::vector<double>(8, 0.125));
  expect_gives(softmax(13, {2, 2, 2}), {2, 2, 2}, std::vector<double>(8, 0.5));
  expect_gives(softmax(11, {1, 4, 1, 1}), {1, 4, 1, 1}, std::vector<double>(4, 0.25));
  // As heads of SqueezeNet have it, behind an image.
  const auto head = [](const char* op) {
    return OneNode("GlobalMaxPool", 11).input({2, 2, 1, 2}, {0, 0, 0, 0, 5, 5, 5, 5}).any_batch().then(op);
  };
  expect_gives(head("Softmax"), {2, 2, 1, 1}, {0.5, 0.5, 0.5, 0.5});
  expect_gives(head("LogSoftmax"), {2, 2, 1, 1}, std::vector<double>(4, -0.6931472));
  expect_gives(OneNode("MaxPool", 11)
                   .input({1, 2, 1, 2}, {3, 3, 3, 3})
                   .with_ints("kernel_shape", {1, 1})
                   .then("Softmax"),
               {1, 2, 1, 2}, {0.25, 0.25, 0.25, 0.25});
}

TEST(OnnxOps, NormalizesRowsAndGroups) {
  // Of two numbers d apart, the normalized ones are -1 and 1 (epsilon is small beside them).
  const auto layer = [](int64_t axis) {
    return OneNode("LayerNormalization").input({2, 2, 2}).with("axis", axis);
  };
  expect_gives(layer(-1).weights({2}, {100, 1}).weights({2}, {10, 20}), {2, 2, 2},
               {-89.998, 20.99998, -89.998, 20.99998, -89.998, 20.99998, -89.998, 20.99998});
  const double outer = 1.3416354, inner = 0.4472118;  // of 1, 2, 3, 4
  expect_gives(layer(1).weights({2, 2}, {1, 1, 1, 1}), {2, 2, 2},
               {-outer, -inner, inner, outer, -outer, -inner, inner, outer});
  const std::vector<Tensor> both =
      OneNode("LayerNormalization").input({2, 2}).weights({2}, {1, 1}).second_output().run();
  ASSERT_EQ(both.size(), 2u);
  expect_tensor(both[1], {2, 1}, {1.5, 3.5});
  // 3 and 4 over the root of the mean of their squares.
  expect_gives(OneNode("RMSNormalization", 23).input({1, 2}, {3, 4}).weights({2}, {1, 10}), {1, 2},
               {0.8485278, 11.3137069});
  expect_gives(OneNode("RMSNormalization", 23)
                   .input({1, 2, 2}, {3, 4, 4, 3})
                   .weights({2, 2}, {1, 1, 1, 2})
                   .with("axis", 1),
               {1, 2, 2}, {0.8485278, 1.1313707, 1.1313707, 1.6970556});
  // Four channels in two groups. Before opset 21 scale and bias are of groups, then of channels.
  const auto groups = [](int64_t opset, int64_t count) {
    return OneNode("GroupNormalization", opset).input({1, 4, 1}, {1, 3, 10, 20}).with("num_groups", count);
  };
  const double first = 0.999995, second = 1.0;  // epsilon beside variances of 1 and 25
  expect_gives(groups(18, 2).weights({2}, {1, 2}).weights({2}, {0, 5}), {1, 4, 1},
               {-first, first, 5 - 2 * second, 5 + 2 * second});
  expect_gives(groups(21, 2).weights({4}, {1, 2, 3, 4}).weights({4}, {0, 0, 5, 6}), {1, 4, 1},
               {-first, 2 * first, 5 - 3 * second, 6 + 4 * second});
  expect_op_refused(groups(18, 2).weights({4}).weights({4}), "expected 2 numbers as input");
  expect_op_refused(groups(18, 0).weights({0}).weights({0}), "expected 0 numbers as input");
  expect_op_refused(groups(21, 3).weights({4}).weights({4}), "expected channels of 3 groups");
  expect_gives(OneNode("InstanceNormalization").input({1, 2, 2}, {1, 3, 10, 20}).weights({2}).weights({2}),
               {1, 2, 2}, {1 - first, 1 + first, 2 - 2 * second, 2 + 2 * second});
}

TEST(OnnxOps, MovesAndChoosesElements) {
  expect_gives(OneNode("Transpose").input({2, 3}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_gives(OneNode("Slice").input({2, 4}).known({-3, 0}).known({9, 1}).known({1, 0}).known({2, 1}),
               {1, 2}, {2, 4});
  expect_gives(OneNode("Gather").input({2, 3}).known({2, -3}).with("axis", 1), {2, 2}, {3, 1, 6, 4});
  expect_gives(OneNode("Gather").input({2, 3}).known_one(-1), {3}, {4, 5, 6});
  expect_op_refused(OneNode("Gather").input({2, 3}).known({2}), "index 2 is outside axis 0");
  expect_op_refused(OneNode("Gather").input({2, 3}).known({-3}), "index -3 is outside axis 0");
  expect_gives(OneNode("Concat").input({1, 2}).input({1, 1}).with("axis", -1), {1, 3}, {1, 2, 1});
  expect_gives(OneNode("Expand").input({2, 1}).known({3, 1, 2}), {3, 2, 2},
               {1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2});
  expect_gives(OneNode("Expand").input({2, 3}).known({2, 1}), {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_op_refused(OneNode("Expand").input({3}).known({2}), "its sizes don't broadcast with [3]");
  expect_op_refused(OneNode("Expand").input({2, 1}).known({3, 4}), "its sizes don't broadcast with [2,1]");
  expect_op_refused(OneNode("Identity").known({1, 2, 3}).then("Expand").known({2}),
                    "its sizes don't broadcast with [3]");
  expect_gives(OneNode("Reshape").input({2, 6}).known({0, -1, 2}), {2, 3, 2},
               {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_op_refused(OneNode("Reshape").input({2, 3}).known({4, -1}), "its sizes don't divide");
  expect_gives(OneNode("Flatten").input({1, 2, 1, 2}).with("axis", 2), {2, 2}, {1, 2, 3, 4});
  expect_gives(OneNode("Squeeze").input({1, 2, 1}), {2}, {1, 2});
  expect_gives(OneNode("Squeeze").input({1, 2, 1}).known({-1}), {1, 2}, {1, 2});
  expect_gives(OneNode("Unsqueeze").input({2}).known({0, -1}), {1, 2, 1}, {1, 2});
  const std::vector<Tensor> parts = OneNode("Split").input({1, 5}).with("axis", 1).second_output().run();
  ASSERT_EQ(parts.size(), 2u);
  expect_tensor(parts[0], {1, 3}, {1, 2, 3});
  expect_tensor(parts[1], {1, 2}, {4, 5});
  const auto split = [](const std::vector<int64_t>& sizes) {
    return OneNode("Split").input({1, 5}).known(sizes).with("axis", 1).second_output();
  };
  expect_tensor(split({1, 4}).run()[1], {1, 4}, {2, 3, 4, 5});
  expect_op_refused(split({2, 2}), "its parts cover 4 of 5 elements of axis 1");
  expect_op_refused(split({2, 4}), "its parts are larger than its input");
  expect_op_refused(OneNode("Identity").known({1, 2, 3}).then("Split").known({1, 1}).second_output(),
                    "its parts cover 2 of 3 elements of axis 0");
}

TEST(OnnxOps, ReshapesToAsManyElements) {
  const auto reshaped = [](const std::vector<int64_t>& sizes) {
    return OneNode("Reshape").input({2, 3}).known(sizes);
  };
  expect_gives(reshaped({0, 1, -1}), {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  expect_op_refused(reshaped({0, 7}), "its sizes have 14 elements, but its input is [2,3]");
  expect_op_refused(reshaped({4, -1}), "its sizes don't divide the elements of [2,3]");
  const auto of_image = [](const std::vector<int64_t>& sizes) {
    return OneNode("MaxPool")
        .input({2, 3, 2, 2})
        .with_ints("kernel_shape", {2, 2})
        .then("Reshape")
        .known(sizes);
  };
  expect_gives(of_image({0, 3}), {2, 3}, {4, 8, 12, 16, 20, 24});
  expect_op_refused(of_image({0, 7}), "its sizes have 14 elements, but its input is [2,3,1,1]");
  expect_op_refused(OneNode("Reshape").known({1, 2, 3}).known({2, 2}),
                    "its sizes have 4 elements, but its input is [3]");
}

TEST(OnnxOps, OfAnOpsetThatIsNotKnownAreRefused) {
  // Up to opset 6 Mul's attribute `axis` said where the second operand lies.
  expect_op_refused(OneNode("Mul", 6).input({1, 3, 3}).weights({3}).with("broadcast", 1).with("axis", 1),
                    "opset 6");
  expect_op_refused(OneNode("Relu", 29).input({2}), "opset 29; dlpipe supports 7 to 28");
}

// The gradients of the sum of a node's results, one for each element of its input.
std::vector<double> gradients_of(const OneNode& node) {
  Tensor x = node.given()[0];
  x.set_requires_grad(true);
  const graph::Runner runner(import_model(node.model()));
  sum(runner.forward({{x}})[0]).backward();
  return x.grad().to_doubles();
}

// PyTorch chooses the subgradient of the negative side for LeakyRelu and other functions with a slope there, and 0 for Relu and for Clip
// at its bounds.
TEST(OnnxOps, GradientsAtKinksArePyTorchs) {
  const auto gradients = [](OneNode node) {
    return gradients_of(std::move(node).input({4}, {-1, -0.0F, 0, 2}));
  };
  const auto expect_gradients = [](const std::vector<double>& got, const std::vector<double>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << "element " << i;
  };
  constexpr double kInverseE = 0.36787944117144233, kSigmoid1 = 0.7310585786300049,
                   kSigmoid2 = 0.8807970779778823;
  expect_gradients(gradients(OneNode("LeakyRelu").with_float("alpha", 0.25F)), {0.25, 0.25, 0.25, 1});
  expect_gradients(gradients(OneNode("LeakyRelu").with_float("alpha", -2)), {-2, -2, -2, 1});
  expect_gradients(gradients_of(OneNode("PRelu").input({3}, {-1, 0, 2}).weights({1}, {0.5})), {0.5, 0.5, 1});
  expect_gradients(gradients(OneNode("Elu").with_float("alpha", 2)), {2 * kInverseE, 2, 2, 1});
  expect_gradients(gradients(OneNode("Celu")), {kInverseE, 1, 1, 1});
  expect_gradients(gradients(OneNode("Selu").with_float("alpha", 2).with_float("gamma", 3)),
                   {6 * kInverseE, 6, 6, 3});
  expect_gradients(gradients(OneNode("Softplus")), {1 - kSigmoid1, 0.5, 0.5, kSigmoid2});
  expect_gradients(gradients(OneNode("Relu")), {0, 0, 0, 1});
  expect_gradients(gradients(OneNode("Abs")), {-1, 0, 0, 1});
  expect_gradients(gradients(OneNode("Clip").with_float("min", 0).with_float("max", 3)), {0, 0, 0, 1});
}

// The ops that give these functions their gradient at 0 don't change infinities, NaN, or numbers near 0.
TEST(OnnxOps, FunctionsWithKinksKeepSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto values = [](const char* op) {
    return OneNode(op).input({5}, {-kInfinity, kInfinity, -1e-20F, 1e-20F, NAN}).run()[0].to_doubles();
  };
  const auto expect_values = [](const std::vector<double>& got, const std::vector<float>& wanted) {
    ASSERT_EQ(got.size(), wanted.size() + 1);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_FLOAT_EQ(static_cast<float>(got[i]), wanted[i]) << i;
    EXPECT_TRUE(std::isnan(got.back()));
  };
  expect_values(values("LeakyRelu"), {-kInfinity, kInfinity, -1e-22F, 1e-20F});
  expect_values(values("Elu"), {-1, kInfinity, 0, 1e-20F});
  expect_values(values("Softplus"), {0, kInfinity, std::log(2.0F), std::log(2.0F)});
}

}  // namespace
}  // namespace dlpipe::engine::onnx
