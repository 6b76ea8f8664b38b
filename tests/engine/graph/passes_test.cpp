#include "engine/graph/passes.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include "dlpipe/graph.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "tests/base/counted_new.h"
#include "tests/engine/graph/graph_testing.h"

namespace dlpipe::engine::graph {
namespace {

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

// Work is what is asked of operator new: no clock. Twice the nodes may take 2.2 times as much.
TEST(Passes, TwiceTheNodesTakeTwiceTheWork) {
  using Step = Tensor (*)(const Tensor& x);
  static const Tensor kWeight = drawn({4, 4}, 1), kBias = drawn({4}, 2), kKernel = drawn({4, 4, 1, 1}, 3),
                      kOnes = Tensor::full({4}, 1.0), kZeros = Tensor::full({4}, 0.0);
  const std::pair<const char*, Step> steps[] = {
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"add and relu", [](const Tensor& x) { return relu(x + kBias); }},
      {"linear, add, relu", [](const Tensor& x) { return relu(linear(x, kWeight, Tensor()) + kBias); }},
      {"silu", [](const Tensor& x) { return x * sigmoid(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"turns",
       [](const Tensor& x) {
         return transpose(reshape(x, x.shape()), {0, 1});
       }},
      {"turned linears",
       [](const Tensor& x) {
         return transpose(linear(transpose(x, {0, 1}), kWeight, Tensor()), {0, 1});
       }},
  };
  const auto work = [](Step step, int count) {
    Graph graph = captured({{1, 4}}, [&](const std::vector<Tensor>& in) {
      Tensor x = in[0];
      for (int i = 0; i < count; ++i) x = step(x);
      return std::vector<Tensor>{x};
    });
    return static_cast<double>(test::new_count_of([&] { optimize(graph); }).bytes);
  };
  for (const auto& [name, step] : steps) {
    constexpr int kSteps = 400;
    EXPECT_LT(work(step, 2 * kSteps), 2.2 * work(step, kSteps)) << name;
  }
}

// A constant that doubles from node to node is made up to a limit, and left to the run beyond it.
TEST(Passes, FoldedConstantsHaveALimit) {
  Graph graph = captured({{1, 1024}}, [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] + sum(concat({drawn({1, 1024}, 1), drawn({1, 1024}, 2)}, 0), {0})};
  });
  ASSERT_STREQ(graph.nodes[0].op->record->name, "concat");
  constexpr int kDoublings = 40;  // four petabytes
  const Node concat = graph.nodes[0];
  std::vector<Node> nodes;
  ValueId last = concat.inputs[0];
  for (int i = 0; i < kDoublings; ++i) {
    const ValueId made = i + 1 < kDoublings ? graph.add_value({std::to_string(i), {}}) : concat.outputs[0];
    nodes.push_back({concat.op, concat.attrs, {last, last}, {made}, 0});
    last = made;
  }
  graph.nodes.erase(graph.nodes.begin());
  graph.nodes.insert(graph.nodes.begin(), nodes.begin(), nodes.end());
  infer_shapes(graph);
  optimize(graph);
  EXPECT_LT(constant_bytes(graph), uint64_t{65} << 20);
  EXPECT_GT(graph.nodes.size(), size_t{20});
  EXPECT_LT(graph.nodes.size(), size_t{30});
}

}  // namespace
}  // namespace dlpipe::engine::graph
