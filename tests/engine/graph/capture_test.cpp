#include "engine/graph/capture.h"

#include <gtest/gtest.h>

#include "base/counters.h"
#include "dlpipe/graph.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine::graph {
namespace {

const CaptureInput kRows = {"x", {{1, 4}}, bit(0)};

Graph capture_rows(const Function& function,
                   const std::vector<std::pair<std::string, Tensor>>& weights = {}) {
  return capture("test", {&kRows, 1}, weights, function);
}

void expect_refused(const Function& function, const std::string& words) {
  try {
    const Graph graph = capture_rows(function);
    FAIL() << to_text(graph);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Capture, PrintsWhatWasCalled) {
  const Tensor weight = Tensor::full({3, 4}, 0.5);
  const Graph graph = capture_rows(
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{softmax(linear(in[0], weight, Tensor(), Activation::kRelu))};
      },
      {{"fc.weight", weight}});
  EXPECT_EQ(to_text(graph),
            "test(x: f32 [N,4])\n"
            "  fc = linear(x, %fc.weight) activation=relu  : f32 [N,3]\n"
            "  softmax = softmax(fc) axis=1  : f32 [N,3]\n"
            "-> softmax\n");
  EXPECT_NE(to_dot(graph).find("n0 -> n1"), std::string::npos);
}

TEST(Capture, MarksSizesThatGrowWithTheBatch) {
  const Graph graph = capture_rows([](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{reshape(in[0], {in[0].size(0) * 2, 2})};
  });
  EXPECT_EQ(to_text(graph),
            "test(x: f32 [N,4])\n"
            "  reshape = reshape(x) shape=[2*N,2]  : f32 [2*N,2]\n"
            "-> reshape\n");
  const Tensor x = Tensor::full({5, 4}, 1.0);
  EXPECT_EQ(Runner(graph).run({&x, 1})[0].shape(), Shape({10, 2}));
}

TEST(Capture, RefusesLooksAtValues) {
  expect_refused(
      [](const std::vector<Tensor>& in) {
        const Tensor y = relu(in[0]);
        return std::vector<Tensor>{scale(y, sum(y).item() > 0 ? 1.0 : 2.0)};
      },
      "reads the values of 'sum' (the output of sum)");
  expect_refused([](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(in[0].clone())}; },
                 "reads the values of 'x' (an input)");
}

TEST(Capture, KnowsAValueByAnotherHandle) {
  const Graph graph =
      capture_rows([](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(in[0].detach())}; });
  EXPECT_NE(to_text(graph).find("relu = relu(x)"), std::string::npos);
}

TEST(Capture, RefusesViewsThatNoOpMade) {
  expect_refused(
      [](const std::vector<Tensor>& in) {
        const std::vector<int64_t> strides = {4, 1};
        return std::vector<Tensor>{relu(in[0].view_as({in[0].size(0), 2}, strides, 0))};
      },
      "a view of 'x' that no op made");
}

TEST(Capture, RefusesOtherOpsForAnotherBatch) {
  expect_refused(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0].size(0) > 2 ? relu(in[0]) : sigmoid(in[0])};
      },
      "different ops for batches of 2 and 3");
  expect_refused(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{scale(in[0], static_cast<double>(in[0].size(0)))};
      },
      "attribute 'factor' of 'scale' (scale) depends on the batch");
}

TEST(Runner, PacksWeightsOnceToTheSameBits) {
  Tensor weight = Tensor::empty({24, 16, 3, 3});
  for (int64_t i = 0; i < weight.elements(); ++i) weight.data<float>()[i] = static_cast<float>(i % 13) - 6;
  Tensor x = Tensor::empty({2, 9, 8, 16});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const UseAutocast autocast(dtype);
    const CaptureInput input = {"x", {{1, 9, 8, 16}}, bit(0)};
    const Runner runner(capture("test", {&input, 1}, {}, [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{conv2d(in[0], weight, Tensor(), {.stride = {2, 2}, .padding = {1, 1}})};
    }));
    const Tensor eager = conv2d(x, weight, Tensor(), {.stride = {2, 2}, .padding = {1, 1}});
    const std::vector<double> wanted = eager.to_doubles();
    EXPECT_EQ(runner.run({&x, 1})[0].to_doubles(), wanted);
    const size_t packed = runner.packed_bytes();
    EXPECT_GT(packed, 0U);
    EXPECT_EQ(runner.run({&x, 1})[0].to_doubles(), wanted);
    EXPECT_EQ(runner.packed_bytes(), packed);
  }
}

TEST(Runner, TellsHowLongEachNodeTook) {
  const Runner runner(capture_rows(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(add(in[0], in[0]))}; }));
  const Tensor x = Tensor::full({2, 4}, 1.25);
  std::vector<size_t> nodes;
  int64_t all_ns = 0;
  const int64_t begin = now_ns();
  runner.run({&x, 1}, [&](size_t node, int64_t ns) {
    nodes.push_back(node);
    EXPECT_GE(ns, 0);
    all_ns += ns;
  });
  EXPECT_LE(all_ns, now_ns() - begin);
  EXPECT_EQ(nodes.size(), runner.graph().nodes.size());
}

TEST(Runner, PutsF32BesideWhatAutocastMadeLow) {
  const Tensor weight = Tensor::full({3, 4}, 0.5);
  const auto beside = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{concat({in[0], linear(in[0], weight, Tensor())}, 1)};
  };
  const Runner runner(capture_rows(beside));
  const Tensor x = Tensor::full({2, 4}, 1.25);
  const UseAutocast autocast(DType::kBF16);
  const Tensor answer = runner.run({&x, 1})[0];
  EXPECT_EQ(answer.dtype(), DType::kF32);
  EXPECT_EQ(answer.to_doubles(), beside({x})[0].to_doubles());
}

TEST(Runner, RefusesInputsOfOtherShapes) {
  const Runner runner(
      capture_rows([](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(in[0])}; }));
  const Tensor wrong = Tensor::zeros({2, 5});
  try {
    runner.run({&wrong, 1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("takes f32 [N,4] as 'x', got f32 [2,5]"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::engine::graph
