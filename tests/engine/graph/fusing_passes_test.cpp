// Passes that make one node of several: activations, norms, convolutions and what follows them, elementwise ops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "dlpipe/graph.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/graph/passes.h"
#include "tests/engine/graph/graph_testing.h"

namespace dlpipe::engine::graph {
namespace {

TEST(Passes, FuseActivationsToTheSameBits) {
  const Tensor weight = drawn({8, 4}, 1), bias = drawn({8}, 2);
  const Graph before = captured({{1, 4}}, [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{gelu(linear(in[0], weight, bias))};
  });
  Graph graph = before;
  EXPECT_EQ(fuse_activation.run(graph), 1);
  EXPECT_EQ(body(graph), "  linear = linear(x, %constant_1, %constant_2) activation=gelu  : f32 [N,8]\n");
  EXPECT_EQ(largest_difference(before, graph), 0.0);
}

// As between DenseNet's concatenations, where no convolution is before them to be folded into.
TEST(Passes, FuseReluIntoABatchNormToTheSameBits) {
  const Tensor gamma = drawn({16}, 1), beta = drawn({16}, 2);
  Tensor mean = drawn({16}, 3), var = exp(drawn({16}, 4));
  const Graph before = captured({{1, 5, 4, 16}}, [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{relu(batch_norm(in[0], gamma, beta, mean, var, {.training = false}))};
  });
  Graph graph = before;
  EXPECT_EQ(fuse_activation.run(graph), 1);
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_NE(body(graph).find("training=false relu=true"), std::string::npos) << body(graph);
  EXPECT_EQ(largest_difference(before, graph), 0.0);
  EXPECT_EQ(fuse_activation.run(graph), 0);
}

TEST(Passes, FuseAddAndReluToTheSameBits) {
  const Graph before = captured({{1, 5, 4, 16}}, [](const std::vector<Tensor>& in) {
    const Tensor branch = scale(in[0], -0.5, 0.25);
    return std::vector<Tensor>{relu(in[0] + branch)};
  });
  Graph graph = before;
  EXPECT_EQ(fuse_add_relu.run(graph), 1);
  EXPECT_EQ(remove_dead_nodes.run(graph), 1);
  EXPECT_EQ(body(graph),
            "  scale = scale(x) factor=-0.5 offset=0.25  : f32 [N,5,4,16]\n"
            "  relu = add_relu(x, scale)  : f32 [N,5,4,16]\n");
  EXPECT_EQ(largest_difference(before, graph), 0.0);
}

TEST(Passes, LeaveAnAddThatOthersRead) {
  Graph graph = captured({{1, 4}}, [](const std::vector<Tensor>& in) {
    const Tensor sum = in[0] + in[0];
    const Tensor positive = relu(sum);
    return std::vector<Tensor>{positive * sum};
  });
  EXPECT_EQ(fuse_add_relu.run(graph), 0);
}

// As PyTorch's exporters write it; the constants are of shape `one`.
Tensor gelu_written_out(const Tensor& x, const Shape& one) {
  const Tensor scaled = x / Tensor::full(one, std::sqrt(2.0));
  const Tensor product = x * (erf(scaled) + Tensor::full(one, 1.0));
  return product * Tensor::full(one, 0.5);
}

TEST(Passes, KnowGeluAndSiluThatAreWrittenOut) {
  for (const Shape& one : {Shape{}, Shape{1}, Shape{1, 1}}) {
    const Graph before = captured({{1, 40}}, [&](const std::vector<Tensor>& in) {
      const Tensor first = gelu_written_out(in[0], one);
      return std::vector<Tensor>{first * sigmoid(first)};
    });
    Graph graph = before;
    EXPECT_EQ(fuse_written_out.run(graph), 2);
    remove_dead_nodes.run(graph);
    EXPECT_EQ(body(graph),
              "  mul_2 = gelu(x)  : f32 [N,40]\n"
              "  mul_3 = silu(mul_2)  : f32 [N,40]\n");
    // A few roundings of values up to 4.
    EXPECT_LT(largest_difference(before, graph), 4e-6);
  }
}

// A number that is a constant of more axes than x gives the answer those, which gelu(x) doesn't have.
TEST(Passes, LeaveWhatIsWrittenOutWithConstantsOfMoreAxes) {
  Graph graph = captured({{1, 40}}, [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{gelu_written_out(in[0], {1, 1, 1})};
  });
  EXPECT_EQ(fuse_written_out.run(graph), 0);
  EXPECT_NO_THROW(optimize(graph));
}

// An inverted bottleneck: wide by 1x1, depthwise, narrow by 1x1, and the input added.
Graph bottleneck(int groups) {
  const Tensor wide = drawn({8, 4, 1, 1}, 1), bias = drawn({8}, 2), narrow = drawn({4, 8, 1, 1}, 4);
  const Tensor middle = drawn({8, 8 / groups, 3, 3}, 3);
  return captured({{1, 6, 5, 4}},
                  [&](const std::vector<Tensor>& in) {
                    const Tensor a = clip(conv2d(in[0], wide, bias), 0, 6);
                    const Tensor b = conv2d(a, middle, Tensor(), {.padding = {1, 1}, .groups = groups});
                    const Tensor c = conv2d(silu(b), narrow, Tensor()) + in[0];
                    const Tensor d = conv2d(c, wide, bias, {.activation = Activation::kRelu});
                    const Tensor e = conv2d(c, wide, bias);  // read twice: nothing goes with it
                    return std::vector<Tensor>{add(add(d, relu(e)), e)};
                  },
                  {{"wide", wide}, {"bias", bias}, {"middle", middle}, {"narrow", narrow}});
}

TEST(Passes, FuseConvolutionsWithWhatFollowsInNetworksWithDepthwiseOnes) {
  const Graph before = bottleneck(8);
  Graph graph = before;
  EXPECT_EQ(fuse_conv_units.run(graph), 5);
  remove_dead_nodes.run(graph);
  const std::string plain = "stride=[1,1] padding=[0,0] dilation=[1,1] groups=1 ";
  EXPECT_EQ(body(graph),
            "  clip = conv_unit(x, %wide, %bias) " + plain +
                "tail=clip low=0 high=6  : f32 [N,6,5,8]\n"
                "  silu = conv_unit(clip, %middle, -) stride=[1,1] padding=[1,1] dilation=[1,1] groups=8 "
                "tail=silu low=-inf high=inf  : f32 [N,6,5,8]\n"
                "  add = conv_unit(silu, %narrow, -, x) " +
                plain +
                "tail=none low=-inf high=inf  : f32 [N,6,5,4]\n"
                "  conv2d_5 = conv_unit(add, %wide, %bias) " +
                plain +
                "tail=none low=-inf high=inf  : f32 [N,6,5,8]\n"
                "  relu = relu(conv2d_5)  : f32 [N,6,5,8]\n"
                "  add_2 = conv_unit(add, %wide, %bias, relu) " +
                plain +
                "tail=clip low=0 high=inf  : f32 [N,6,5,8]\n"
                "  add_3 = add(add_2, conv2d_5)  : f32 [N,6,5,8]\n");
  EXPECT_LT(largest_difference(before, graph), 2e-5);
  Graph other = bottleneck(1);
  EXPECT_EQ(fuse_conv_units.run(other), 0);
}

TEST(Passes, FusePairsOfWideAndDepthwiseConvolutions) {
  const Graph before = bottleneck(8);
  Graph graph = before;
  fuse_conv_units.run(graph);
  remove_dead_nodes.run(graph);
  EXPECT_EQ(fuse_conv_pairs.run(graph), 1);
  EXPECT_EQ(remove_dead_nodes.run(graph), 1);
  EXPECT_EQ(
      body(graph).substr(0, body(graph).find('\n')),
      "  silu = conv_pair(x, %wide, %middle, %bias, -) inner_tail=clip inner_low=0 inner_high=6 stride=[1,1] "
      "padding=[1,1] dilation=[1,1] tail=silu low=-inf high=inf  : f32 [N,6,5,8]");
  EXPECT_LT(largest_difference(before, graph), 2e-5);
}

bool have_same_bits(const Graph& a, const Graph& b, int64_t batch) {
  const Tensor x = drawn(a.value(a.inputs[0]).shape_at(batch), 5);
  const Tensor left = Runner(a).run({&x, 1})[0], right = Runner(b).run({&x, 1})[0];
  return left.spec() == right.spec() && std::memcmp(left.raw(), right.raw(), left.size_bytes()) == 0;
}

TEST(Passes, JoinElementwiseOpsToTheSameBits) {
  const Tensor shift = drawn({16}, 1), factor = drawn({1}, 2);
  const Graph before = captured({{1, 50, 40, 16}},
                                [&](const std::vector<Tensor>& in) {
                                  const Tensor y = in[0] * clip(scale(in[0], 0.25, 0.5), 0, 1);
                                  return std::vector<Tensor>{tanh(y * factor + shift) - in[0]};
                                },
                                {{"shift", shift}, {"factor", factor}});
  Graph graph = before;
  EXPECT_EQ(fuse_elementwise_chains.run(graph), 6);
  EXPECT_EQ(remove_dead_nodes.run(graph), 6);
  EXPECT_EQ(body(graph),
            "  sub = elementwise_chain(x, %factor, %shift) steps=scale(x0) factor=0.25 offset=0.5; clip(y0) "
            "low=0 high=1; mul(x0,y1); mul(y2,x1); add(y3,x2); tanh(y4); sub(y5,x0)  : f32 [N,50,40,16]\n");
  check(graph);
  for (const int64_t batch : {1, 3}) EXPECT_TRUE(have_same_bits(before, graph, batch)) << batch;
  EXPECT_EQ(optimize(graph).size(), 0U) << to_text(graph);
  // And apart again.
  const Graph apart = without_chains(graph);
  EXPECT_EQ(apart.nodes.size(), before.nodes.size());
  for (size_t i = 0; i < apart.nodes.size(); ++i) EXPECT_EQ(apart.nodes[i].op, before.nodes[i].op) << i;
  EXPECT_TRUE(have_same_bits(before, apart, 2));
}

// Between convolutions values lie in blocks; in bf16 those beside f32 constants become f32, each step rounding as it did.
TEST(Passes, JoinElementwiseOpsInAnyLayoutAndDtype) {
  const Tensor filters = drawn({16, 16, 3, 3}, 1), shift = drawn({16}, 2);
  for (const bool has_shift : {false, true}) {
    const Graph before =
        captured({{1, 12, 9, 16}},
                 [&](const std::vector<Tensor>& in) {
                   const Tensor x = conv2d(in[0], filters, Tensor(), {.padding = {1, 1}});
                   const Tensor gate = sigmoid(exp(scale(x, 0.1)));
                   const Tensor y = has_shift ? x + shift : x;
                   return std::vector<Tensor>{conv2d(y * gate, filters, Tensor(), {.padding = {1, 1}})};
                 },
                 {{"filters", filters}, {"shift", shift}});
    Graph graph = before;
    EXPECT_EQ(fuse_elementwise_chains.run(graph), has_shift ? 4 : 3);
    remove_dead_nodes.run(graph);
    EXPECT_EQ(graph.nodes.size(), 3U);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const UseAutocast autocast(dtype);
      for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
        const UseBackend use(backend);
        EXPECT_TRUE(have_same_bits(before, graph, 2)) << dtype_name(dtype) << to_text(graph);
      }
    }
  }
}

TEST(Passes, LeaveElementwiseOpsThatDontFitIntoAChain) {
  const Tensor positions = drawn({3, 4}, 1);
  Graph graph = captured({{1, 3, 4}},
                         [&](const std::vector<Tensor>& in) {
                           const Tensor kept = exp(in[0]);  // an output, too
                           const Tensor gate =
                               sigmoid(scale(mean(in[0], {1}, true), 2.0));  // of another shape
                           const Tensor placed = relu(kept + positions);     // stretched along the batch
                           return std::vector<Tensor>{tanh(placed * gate), kept};
                         },
                         {{"positions", positions}});
  EXPECT_EQ(fuse_elementwise_chains.run(graph), 1);
  remove_dead_nodes.run(graph);
  EXPECT_EQ(
      body(graph),
      "  exp = exp(x)  : f32 [N,3,4]\n"
      "  mean = mean(x) axes=2 keep_dims=true  : f32 [N,1,4]\n"
      "  sigmoid = elementwise_chain(mean) steps=scale(x0) factor=2 offset=0; sigmoid(y0)  : f32 [N,1,4]\n"
      "  add = add(exp, %positions)  : f32 [N,3,4]\n"
      "  relu = relu(add)  : f32 [N,3,4]\n"
      "  mul = mul(relu, sigmoid)  : f32 [N,3,4]\n"
      "  tanh = tanh(mul)  : f32 [N,3,4]\n");
}

TEST(Passes, JoinNoMoreThanANodeCanRead) {
  Graph graph = captured({{1, 4}}, [&](const std::vector<Tensor>& in) {
    Tensor sum = in[0];
    for (int i = 0; i < 40; ++i) sum = sum + transpose(transpose(scale(in[0], i), {1, 0}), {1, 0});
    return std::vector<Tensor>{sum};
  });
  const Graph before = graph;
  EXPECT_GT(fuse_elementwise_chains.run(graph), 30);
  remove_dead_nodes.run(graph);
  check(graph);
  EXPECT_TRUE(have_same_bits(before, graph, 2));
}

}  // namespace
}  // namespace dlpipe::engine::graph
