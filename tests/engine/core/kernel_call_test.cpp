// Forward and backward kernels called singly are those that autograd calls: the same bits.
#include "engine/core/kernel_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

const OpRow& row_of(const std::string& name) {
  const auto rows = op_table();
  return *std::ranges::find_if(rows, [&](const OpRow& row) { return name == row.record->name; });
}

Tensor drawn(const Shape& shape, double low, double high, uint32_t seed) {
  std::mt19937 bits(seed);
  Tensor tensor = Tensor::empty(shape);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.data<float>()[i] = static_cast<float>(low + (high - low) * (bits() % 4096) / 4096.0);
  return tensor;
}

bool is_image(const OpRecord& record, size_t i) {
  return (record.image_inputs & bit(static_cast<int>(i))) != 0;
}

std::vector<Tensor> inputs_of(const OpRecord& record, const OpSample& sample, Layout layout) {
  const NoGrad no_grad;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    inputs.push_back(drawn(sample.inputs[i].shape, sample.low, sample.high, static_cast<uint32_t>(i + 1)));
    if (is_image(record, i)) inputs.back() = reorder(inputs.back(), layout);
  }
  if (std::string(record.name) == "batch_norm") inputs.resize(6);  // the residual, which may be absent
  return inputs;
}

SavedCall saved_of(const OpRecord& record, const ForwardCall& call) {
  SavedCall saved;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    saved.input_specs.push_back(call.inputs[i].defined() ? call.inputs[i].spec() : TensorSpec());
    const bool is_saved = (record.save_inputs & bit(static_cast<int>(i))) != 0;
    saved.inputs.push_back(is_saved ? call.inputs[i] : Tensor());
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const bool is_saved = (record.save_outputs & bit(static_cast<int>(i))) != 0;
    saved.outputs.push_back(is_saved ? call.outputs[i] : Tensor());
  }
  return saved;
}

/// Of the first sample that fits the layout; answers whether there was one.
void compare(const std::string& name, const OpSample& sample, Layout layout) {
  const OpRow& row = row_of(name);
  const OpRecord& record = *row.record;
  std::vector<Tensor> inputs = inputs_of(record, sample, layout);
  uint32_t wanted = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !(record.differentiable & bit(static_cast<int>(i)))) continue;
    inputs[i].set_requires_grad(true);
    wanted |= bit(static_cast<int>(i));
  }
  const Tensor expected = apply(row, inputs, sample.attrs)[0];
  const Tensor seed = drawn(expected.shape(), -1, 1, 77);
  expected.backward(seed);

  const ForwardCall call = call_forward(row, inputs_of(record, sample, layout), sample.attrs, Backend::kCpu);
  EXPECT_EQ(call.outputs[0].to_doubles(), expected.to_doubles());
  SavedCall saved = saved_of(record, call);
  saved.layouts = LayoutChoice{call.inputs[0].layout(), call.outputs[0].layout()};
  const std::vector<Tensor> gradients = call_backward(row, saved, {seed}, wanted, sample.attrs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    if (wanted & bit(static_cast<int>(i))) {
      EXPECT_EQ(gradients[i].to_doubles(), inputs[i].grad().to_doubles());
    } else {
      EXPECT_TRUE(i >= gradients.size() || !gradients[i].defined());
    }
  }
}

class KernelCall : public testing::TestWithParam<const char*> {};

TEST_P(KernelCall, HasTheBitsOfAutograd) {
  const OpRecord& record = *row_of(GetParam()).record;
  int compared = 0;
  for (const OpSample& sample : record.samples()) {
    SCOPED_TRACE(sample.name);
    if (record.fused != nullptr && record.fused(sample.attrs) != nullptr) continue;  // two nodes of the graph
    compare(GetParam(), sample, Layout::kPlain);
    ++compared;
    const Shape& shape = sample.inputs[0].shape;
    if (!(record.layouts & bit(static_cast<int>(Layout::kBlocked8))) || shape.rank() != 4 ||
        shape[3] % 8 != 0)
      continue;
    SCOPED_TRACE("blocked");
    compare(GetParam(), sample, Layout::kBlocked8);
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Ops, KernelCall,
                         testing::Values("conv2d", "batch_norm", "max_pool2d", "relu", "clip", "linear",
                                         "layer_norm", "gelu", "global_avg_pool"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(KernelCall, MemoryIsBorrowedInBlocks) {
  const NoGrad no_grad;
  const Tensor plain_images = drawn({2, 3, 4, 16}, -1, 1, 5);
  const Tensor blocked = reorder(plain_images, Layout::kBlocked8);
  const Tensor borrowed = borrow_laid_out(blocked.raw(), blocked.spec());
  EXPECT_EQ(borrowed.to_doubles(), plain_images.to_doubles());
  EXPECT_THROW(borrow_laid_out(blocked.raw(), {{2, 3, 4, 12}, DType::kF32, Layout::kBlocked8}), Error);
}

TEST(KernelCall, GradientsOfOtherNumbersAreRefused) {
  const OpRow& row = row_of("relu");
  const Tensor y = drawn({4}, 0, 1, 6);
  SavedCall saved;
  saved.input_specs = {y.spec()};
  saved.outputs = {y};
  EXPECT_THROW(call_backward(row, saved, {}, 1, NoAttrs{}), Error);
}

// Arrays of the calls have room for OpRecord::kMostInputs.
TEST(KernelCall, MoreInputsThanAnyOpTakesAreRefused) {
  const Tensor x = Tensor::zeros({2, 3});
  for (const char* const op : {"concat", "relu", "add"}) {
    for (const size_t count : {size_t{33}, size_t{100'000}}) {
      try {
        apply(row_of(op), std::vector<Tensor>(count, x), NoAttrs{});
        FAIL() << op << " took " << count << " inputs";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kMisuse);
        EXPECT_NE(error.status().message().find(concat("[", op, "] expected at most 32 inputs")),
                  std::string::npos)
            << error.what();
      }
    }
  }
  SavedCall saved;
  saved.input_specs.assign(40, x.spec());
  EXPECT_THROW(call_backward(row_of("relu"), saved, {x}, 1, NoAttrs{}), Error);
}

}  // namespace
}  // namespace dlpipe::engine
