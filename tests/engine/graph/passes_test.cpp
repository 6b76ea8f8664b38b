#include "dlpipe/engine/graph/passes.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <cstring>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/graph/output_names.h"
#include "dlpipe/engine/graph/run.h"
#include "dlpipe/engine/ops/ops.h"
#include "tests/engine/distance.h"
#include "tests/engine/graph/graph_testing.h"

namespace dlpipe::engine::graph {
namespace {

// What is between the first and the last line.
std::string body(const Graph& graph) {
  const std::string text = to_text(graph);
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.rfind("->") - begin);
}

double largest_difference(const Graph& a, const Graph& b) {
  Shape shape = a.value(a.inputs[0]).shape_at(3);
  const Tensor x = drawn(shape, 5);
  return test::largest_difference(Runner(b).run({&x, 1})[0], Runner(a).run({&x, 1})[0]);
}

TEST(Passes, RemoveWhatNoOutputDependsOn) {
  Graph graph = captured({{1, 4}}, [](const std::vector<Tensor>& in) {
    sigmoid(relu(in[0]));
    return std::vector<Tensor>{relu(in[0])};
  });
  EXPECT_EQ(graph.nodes.size(), 3U);
  EXPECT_EQ(remove_dead_nodes.run(graph), 2);
  EXPECT_EQ(body(graph), "  relu_2 = relu(x)  : f32 [N,4]\n");
}

TEST(Passes, RunNodesOfConstantsOnce) {
  const Tensor table = drawn({6, 4}, 1);
  const Graph before = captured(
      {{1, 3, 4}},
      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + slice(table, 0, 0, 3)}; },
      {{"positions", table}});
  EXPECT_EQ(body(before),
            "  slice = slice(%positions) axis=0 begin=0 end=3 step=1  : f32 [3,4]\n"
            "  add = add(x, slice)  : f32 [N,3,4]\n");
  Graph graph = before;
  EXPECT_EQ(fold_constants.run(graph), 1);
  EXPECT_EQ(body(graph), "  add = add(x, %slice)  : f32 [N,3,4]\n");
  EXPECT_EQ(largest_difference(before, graph), 0.0);
}

TEST(Passes, ShareEqualNodes) {
  const Graph before = captured({{1, 4}}, [](const std::vector<Tensor>& in) {
    const Tensor first = exp(scale(in[0], 2.0));
    const Tensor twin = exp(scale(in[0], 2.0));
    const Tensor sum = first + twin;
    return std::vector<Tensor>{sum + exp(scale(in[0], 3.0))};
  });
  Graph graph = before;
  EXPECT_EQ(share_equal_nodes.run(graph), 2);
  EXPECT_EQ(body(graph),
            "  scale = scale(x) factor=2 offset=0  : f32 [N,4]\n"
            "  exp = exp(scale)  : f32 [N,4]\n"
            "  add = add(exp, exp)  : f32 [N,4]\n"
            "  scale_3 = scale(x) factor=3 offset=0  : f32 [N,4]\n"
            "  exp_3 = exp(scale_3)  : f32 [N,4]\n"
            "  add_2 = add(add, exp_3)  : f32 [N,4]\n");
  EXPECT_EQ(largest_difference(before, graph), 0.0);
}

TEST(Passes, KeepTheNamesOfOutputs) {
  const Tensor weight = drawn({3, 4}, 1), bias = drawn({3}, 2), factor = drawn({3}, 3),
               other = drawn({3, 4}, 4);
  const std::vector<std::pair<std::string, Tensor>> weights = {
      {"fc.weight", weight}, {"fc.bias", bias}, {"factor", factor}, {"head.weight", other}};
  Graph graph = captured(
      {{1, 4}},
      [&](const std::vector<Tensor>& in) {
        const Tensor logits = relu(linear(in[0], weight, bias));
        const Tensor scaled = linear(in[0], other, Tensor()) * factor;
        const Tensor between = tanh(exp(in[0]));
        return std::vector<Tensor>{logits, scaled, between, exp(in[0]), exp(in[0])};
      },
      weights);
  const std::vector<std::string> names = {"logits", "scaled", "tanh", "twin", "fc"};
  name_outputs(graph, names);
  EXPECT_EQ(output_names(graph), names);
  optimize(graph);
  EXPECT_EQ(output_names(graph), names);
  const std::string text = to_text(graph);
  EXPECT_NE(text.find("logits = linear(x, %fc.weight, %fc.bias) activation=relu"), std::string::npos) << text;
  EXPECT_NE(text.find("scaled = linear("), std::string::npos) << text;
  EXPECT_NE(text.find("tanh = tanh(twin)"), std::string::npos) << text;
  EXPECT_EQ(graph.nodes.size(), 5U) << text;
}

TEST(Passes, InputsAndSeveralOutputsOfOneValueHaveOneName) {
  Graph graph = captured({{1, 4}}, [](const std::vector<Tensor>& in) {
    const Tensor y = relu(in[0]);
    return std::vector<Tensor>{in[0], y, y, exp(in[0])};
  });
  name_outputs(graph, std::vector<std::string>{"first", "second", "third", "x"});
  EXPECT_EQ(output_names(graph), (std::vector<std::string>{"x", "second", "second", "exp"}));
}

// Queries, keys and values of [T,B,3*H*D], as PyTorch's exporter cuts them.
Tensor attention_written_out(const Tensor& qkv, double factor) {
  const int64_t t = qkv.size(0), b = qkv.size(1), h = 2, d = qkv.size(2) / 6;
  const Tensor parts = transpose(reshape(qkv, {1, t, b, 3, h * d}), {3, 1, 2, 0, 4});
  const auto part = [&](int64_t i) {
    const Tensor one = reshape(slice(reshape(parts, {3, t, b, h * d}), 0, i, i + 1), {t, b * h, d});
    return reshape(transpose(one, {1, 0, 2}), {b, h, t, d});
  };
  const Tensor half = Tensor::full({1}, factor);
  const Tensor pairs = softmax(matmul(part(0) * half, transpose(part(1), {0, 1, 3, 2}) * half), 3);
  return reshape(transpose(matmul(pairs, part(2)), {2, 0, 1, 3}), {t, b, h * d});
}

TEST(Passes, FuseAttentionThatIsWrittenOut) {
  const auto of_factor = [](double factor) {
    return captured({{1, 5, 24}}, [factor](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{attention_written_out(relu(transpose(in[0], {1, 0, 2})), factor)};
    });
  };
  const Graph before = of_factor(std::pow(4.0, -0.25));
  Graph graph = before;
  EXPECT_EQ(fuse_attention.run(graph), 1);
  remove_dead_nodes.run(graph);
  EXPECT_EQ(body(graph),
            "  transpose = transpose(x) permutation=[1,0,2]  : f32 [5,N,24]\n"
            "  relu = relu(transpose)  : f32 [5,N,24]\n"
            "  matmul_2.qkv = transpose(relu) permutation=[1,0,2]  : f32 [N,5,24]\n"
            "  matmul_2.attention = self_attention(matmul_2.qkv) heads=2 causal=false  : f32 [N,5,8]\n"
            "  matmul_2.heads = reshape(matmul_2.attention) shape=[N,5,2,4]  : f32 [N,5,2,4]\n"
            "  matmul_2 = transpose(matmul_2.heads) permutation=[0,2,1,3]  : f32 [N,2,5,4]\n"
            "  transpose_7 = transpose(matmul_2) permutation=[2,0,1,3]  : f32 [5,N,2,4]\n"
            "  reshape_11 = reshape(transpose_7) shape=[5,N,8]  : f32 [5,N,8]\n");
  EXPECT_LT(largest_difference(before, graph), 1e-5);
  Graph other = of_factor(0.3);
  EXPECT_EQ(fuse_attention.run(other), 0);
}

// As PyTorch's attention does for batches that come first: rows of tokens are turned to come first themselves, and back.
TEST(Passes, LeaveRowsOfLinearsInPlace) {
  const Tensor weight = drawn({8, 4}, 1), bias = drawn({8}, 2), out = drawn({6, 8}, 3);
  const auto turned = [&](const Tensor& x) {  // [N,5,4] -> [N,5,8]
    return transpose(linear(transpose(x, {1, 0, 2}), weight, bias), {1, 0, 2});
  };
  const auto turned_in_heads = [&](const Tensor& x) {  // [N,5,8] -> [N,5,6]
    const Tensor heads = transpose(reshape(x, {x.size(0), 5, 2, 4}), {1, 0, 2, 3});
    const Tensor y = linear(reshape(heads, {5 * x.size(0), 8}), out, Tensor());
    return transpose(reshape(y, {5, x.size(0), 6}), {1, 0, 2});
  };
  const std::vector<std::pair<std::string, Tensor>> weights = {
      {"weight", weight}, {"bias", bias}, {"out", out}};
  const Graph before = captured(
      {{1, 5, 4}},
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{turned_in_heads(relu(turned(in[0])))};
      },
      weights);
  Graph graph = before;
  EXPECT_EQ(leave_rows_in_place.run(graph), 2);
  remove_dead_nodes.run(graph);
  EXPECT_EQ(body(graph),
            "  transpose_2 = linear(x, %weight, %bias) activation=none  : f32 [N,5,8]\n"
            "  relu = relu(transpose_2)  : f32 [N,5,8]\n"
            "  transpose_4 = linear(relu, %out) activation=none  : f32 [N,5,6]\n");
  EXPECT_LT(largest_difference(before, graph), 1e-5);
  // Rows of another shape behind it; turned rows that stay so; columns that are turned.
  Graph merged = captured(
      {{1, 5, 4}},
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{reshape(turned(in[0]), {in[0].size(0) * 5, 8})};
      },
      weights);
  EXPECT_GT(leave_rows_in_place.run(merged), 0);
  remove_dead_nodes.run(merged);
  EXPECT_EQ(to_text(merged).find("transpose("), std::string::npos) << to_text(merged);
  for (const bool columns : {false, true}) {
    Graph other = captured(
        {{1, 8, 4}},
        [&](const std::vector<Tensor>& in) {
          const Tensor y = linear(transpose(in[0], {1, 0, 2}), weight, bias);
          return std::vector<Tensor>{columns ? transpose(y, {1, 2, 0}) : relu(y)};
        },
        weights);
    EXPECT_EQ(leave_rows_in_place.run(other), 0) << columns;
  }
}

// What the product answers is of the batch's size there: no axis of columns.
TEST(Passes, LeaveRowsWhereTheBatchComesLast) {
  const Tensor weight = drawn({1, 4}, 1);
  Graph graph =
      captured({{1, 6, 4}},
               [&](const std::vector<Tensor>& in) {
                 const Tensor x = transpose(relu(transpose(in[0], {1, 0, 2})), {1, 0, 2});
                 const int64_t n = in[0].size(0);
                 return std::vector<Tensor>{transpose(reshape(linear(x, weight, Tensor()), {n, 6}), {1, 0})};
               },
               {{"weight", weight}});
  const Graph before = graph;
  EXPECT_EQ(leave_rows_in_place.run(graph), 0) << body(graph);
  EXPECT_EQ(largest_difference(before, graph), 0);
}

// A file may hold as many views as it likes: none of them takes a part of the stack.
TEST(Passes, TakeLongChainsOfViews) {
  const Tensor weight = drawn({4, 4}, 1);
  Graph graph = captured({{1, 5, 4}},
                         [&](const std::vector<Tensor>& in) {
                           Tensor x = in[0];
                           for (int i = 0; i < 4001; ++i) x = transpose(x, {1, 0, 2});
                           return std::vector<Tensor>{transpose(linear(x, weight, Tensor()), {1, 0, 2})};
                         },
                         {{"weight", weight}});
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{512} << 10);
  pthread_t thread;
  const auto run = [](void* to) -> void* {
    EXPECT_EQ(leave_rows_in_place.run(*static_cast<Graph*>(to)), 1);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &graph), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  remove_dead_nodes.run(graph);
  EXPECT_EQ(graph.nodes.size(), 1u) << "the linear alone";
}

TEST(Passes, FoldScalesAndShiftsOfChannelsIntoWeights) {
  const Tensor weight = drawn({8, 4}, 1), bias = drawn({8}, 2), scale_of_layer = drawn({1, 1, 8}, 3);
  const Tensor filters = drawn({6, 8, 1, 1}, 4), shift = drawn({6}, 5), scalar = drawn({1}, 6);
  const Graph before = captured({{1, 3, 5, 4}},
                                [&](const std::vector<Tensor>& in) {
                                  const Tensor y = scale_of_layer * (bias + linear(in[0], weight, Tensor()));
                                  const Tensor z = conv2d(relu(y), filters, Tensor(), {}) + shift;
                                  return std::vector<Tensor>{z * scalar};  // no constant for each channel
                                },
                                {{"fc.weight", weight},
                                 {"fc.bias", bias},
                                 {"gamma", scale_of_layer},
                                 {"conv.weight", filters},
                                 {"shift", shift},
                                 {"scalar", scalar}});
  Graph graph = before;
  EXPECT_EQ(fold_scale_and_shift.run(graph), 3);
  EXPECT_EQ(body(graph),
            "  fc = linear(x, %fc.weight, %fc.bias) activation=none  : f32 [N,3,5,8]\n"
            "  relu = relu(fc)  : f32 [N,3,5,8]\n"
            "  conv = conv2d(relu, %conv.weight, %conv.bias) stride=[1,1] padding=[0,0] dilation=[1,1] "
            "groups=1 activation=none  : f32 [N,3,5,6]\n"
            "  mul_2 = mul(conv, %scalar)  : f32 [N,3,5,6]\n");
  EXPECT_LT(largest_difference(before, graph), 1e-5);
}

TEST(Passes, FoldScalesOfNoChannels) {
  const Tensor weight = drawn({0, 4}, 1), factor = drawn({0}, 2);
  Graph graph = captured({{1, 4}}, [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{linear(in[0], weight, Tensor()) * factor};
  });
  EXPECT_EQ(fold_scale_and_shift.run(graph), 1);
  EXPECT_EQ(body(graph),
            "  linear = linear(x, %constant_1, %constant_1.bias) activation=none  : f32 [N,0]\n");
}

TEST(Passes, FoldBatchNormIntoConvolutionAndLinear) {
  const Tensor weight = drawn({16, 3, 3, 3}, 1), gamma = drawn({16}, 2, 2), beta = drawn({16}, 3);
  Tensor mean = drawn({16}, 4), variance = Tensor::full({16}, 0.7);
  const Tensor head = drawn({5, 16}, 6), head_bias = drawn({5}, 7);
  const Tensor gamma2 = drawn({5}, 8, 2), beta2 = drawn({5}, 9);
  Tensor mean2 = drawn({5}, 10), variance2 = Tensor::full({5}, 1.3);
  const Graph before =
      captured({{1, 6, 7, 3}},
               [&](const std::vector<Tensor>& in) {
                 BatchNormAttrs attrs{.training = false, .relu = true};
                 const Tensor y = conv2d(in[0], weight, Tensor(), {.padding = {1, 1}});
                 const Tensor z = batch_norm(y, gamma, beta, mean, variance, attrs);
                 const Tensor w = conv2d(in[0], weight, Tensor(), {.padding = {1, 1}});
                 const Tensor v = batch_norm(w, gamma, beta, mean, variance, attrs, scale(z, 0.5));
                 attrs.relu = false;
                 return std::vector<Tensor>{batch_norm(linear(global_avg_pool(v), head, head_bias), gamma2,
                                                       beta2, mean2, variance2, attrs)};
               },
               {{"conv.weight", weight}, {"head.weight", head}, {"head.bias", head_bias}});
  Graph graph = before;
  EXPECT_EQ(fold_batch_norm.run(graph), 3);
  remove_dead_nodes.run(graph);
  EXPECT_EQ(fuse_activation.run(graph), 1);
  const std::string conv = "stride=[1,1] padding=[1,1] dilation=[1,1] groups=1";
  EXPECT_EQ(body(graph),
            "  conv = conv2d(x, %conv.weight, %conv.bias) " + conv +
                " activation=relu  : f32 [N,6,7,16]\n"
                "  conv_2 = conv2d(x, %conv.weight, %conv.bias) " +
                conv +
                " activation=none  : f32 [N,6,7,16]\n"
                "  scale = scale(conv) factor=0.5 offset=0  : f32 [N,6,7,16]\n"
                "  batch_norm_2.add = add(conv_2, scale)  : f32 [N,6,7,16]\n"
                "  batch_norm_2 = relu(batch_norm_2.add)  : f32 [N,6,7,16]\n"
                "  global_avg_pool = global_avg_pool(batch_norm_2)  : f32 [N,16]\n"
                "  head = linear(global_avg_pool, %head.weight, %head.bias) activation=none  : f32 [N,5]\n");
  // Sums of 27 products in another order, values of size 10.
  EXPECT_LT(largest_difference(before, graph), 1e-4);
}

TEST(Passes, LeaveABatchNormWhoseConvolutionOthersRead) {
  const Tensor weight = drawn({4, 4}, 1), gamma = drawn({4}, 2), beta = drawn({4}, 3);
  Tensor mean = drawn({4}, 4), variance = Tensor::full({4}, 1.0);
  Graph graph = captured({{1, 4}}, [&](const std::vector<Tensor>& in) {
    const Tensor y = linear(in[0], weight, Tensor());
    return std::vector<Tensor>{y + batch_norm(y, gamma, beta, mean, variance, {.training = false})};
  });
  EXPECT_EQ(fold_batch_norm.run(graph), 0);
}

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

TEST(Passes, SayWhatTheyDid) {
  Graph graph = captured({{1, 4}}, [](const std::vector<Tensor>& in) {
    sigmoid(in[0]);
    return std::vector<Tensor>{relu(in[0])};
  });
  const std::vector<PassReport> reports = optimize(graph);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].pass, &remove_dead_nodes);
  EXPECT_EQ(reports[0].nodes, 1U);
}

}  // namespace
}  // namespace dlpipe::engine::graph
