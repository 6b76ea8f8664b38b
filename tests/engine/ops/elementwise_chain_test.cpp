#include "engine/ops/elementwise_chain.h"

#include <gtest/gtest.h>

#include <string>

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"

namespace dlpipe::engine {
namespace {

const OpRow& chain_row() {
  return *OpRegistry::builtin().get("elementwise_chain");
}

Attrs steps(const std::string& text) {
  const NamedAttr attr = {"steps", text};
  return make_attrs(*chain_row().record, {&attr, 1});
}

ChainPlan plan_of(const std::string& text, std::initializer_list<TensorSpec> inputs, const Shape& answer) {
  const ChainBackend backend = {
      [](DType dtype) { return dtype == DType::kF32; },
      [](const OpRow& op, DType, const Attrs&) { return op.kernels[static_cast<int>(Backend::kCpu)]; }};
  return plan_chain({inputs.begin(), inputs.size()}, answer, steps(text).as<ChainAttrs>(), backend);
}

// What makes a new elementwise op part of chains is its registration alone.
TEST(ElementwiseChain, KnowsTheOpsThatAreRegisteredElementwise) {
  for (const char* const name : {"add", "add_relu", "clip", "exp", "gelu", "relu", "scale", "tanh"})
    EXPECT_TRUE(is_elementwise(*OpRegistry::builtin().get(name)->record)) << name;
  for (const char* const name : {"softmax", "sum", "reshape", "dropout", "elementwise_chain"})
    EXPECT_FALSE(is_elementwise(*OpRegistry::builtin().get(name)->record)) << name;
}

TEST(ElementwiseChain, SharesBuffersOfAnswersThatNeverMeet) {
  const TensorSpec x = {{2, 8}};
  const ChainPlan line = plan_of("exp(x0); exp(y0); exp(y1); exp(y2)", {x}, x.shape);
  EXPECT_EQ(line.buffers, 2);
  // The first answer waits for the last step.
  const ChainPlan fork = plan_of("exp(x0); exp(y0); exp(y1); exp(y2); mul(y3,y0)", {x}, x.shape);
  EXPECT_EQ(fork.buffers, 3);
  for (const ChainPlan& plan : {line, fork}) {
    for (size_t k = 0; k + 1 < plan.steps.size(); ++k) {
      for (const int operand : plan.steps[k].operands) {
        if (operand >= 0) continue;
        EXPECT_NE(plan.steps[static_cast<size_t>(-1 - operand)].buffer, plan.steps[k].buffer) << k;
      }
    }
  }
}

TEST(ElementwiseChain, CastsWhereOperandsOrKernelsAskForIt) {
  const TensorSpec low = {{2, 8}, DType::kBF16}, wide = {{8}};
  const ChainPlan plan = plan_of("exp(x0); mul(y0,x1); mul(y1,x0)", {low, wide}, low.shape);
  std::string ops;
  for (const ChainPlan::Step& step : plan.steps) {
    for (const OpRow& row : op_table()) {
      if (row.kernels[static_cast<int>(Backend::kCpu)] == step.kernels) ops += std::string(row.name()) + " ";
    }
  }
  // bf16 in f32 and rounded; then both factors in f32, the input, cast for the first step, used again.
  EXPECT_EQ(ops, "cast exp cast cast mul mul ");
  EXPECT_EQ(plan.channels, 8);
}

TEST(ElementwiseChain, RefusesOperandsThatAreStretchedInAnotherWay) {
  const auto expect_refused = [](const char* text, std::initializer_list<Shape> shapes, const char* words) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) inputs.push_back(Tensor::zeros(shape));
    try {
      apply(chain_row(), inputs, steps(text));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expect_refused("mul(x0,x1)", {{3, 4}, {3, 1}},
                 "expected inputs of [3,4], of its last axis or of one number");
  expect_refused("mul(x0,x1)", {{3, 4}, {5}}, "do not broadcast");
  expect_refused("exp(x1); mul(x0,y0)", {{3, 4}, {4}},
                 "expected steps that all return [3,4], got one of [4]");
}

}  // namespace
}  // namespace dlpipe::engine
