// What every op asks of a GPU at the sizes of real networks, without one and without computing anything: the
// simulated grid tells of launches and skips them. No time is measured; what is held to is what made kernels
// a hundred times too slow before: threads without work, blocks too few to fill a GPU, scratch, launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dlpipe/ops.h"
#include "engine/core/allocator.h"
#include "engine/cuda/flat/flat_kernels.h"
#include "engine/cuda/grid/grid.h"
#include "engine/ops/records.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kLarge = int64_t{1} << 20;  // elements of a tensor that is worth a whole GPU
constexpr int64_t kEnoughBlocks = 132;        // an H100's multiprocessors
constexpr int64_t kThreadsAnElement = 2;
constexpr int64_t kSmallScratch = int64_t{2} << 20;  // bytes that any op may take

/// What a kernel may do that others may not.
struct Exception {
  const char* kernel;
  int64_t threads = kThreadsAnElement;  // an element of the largest tensor
  bool few_blocks = false;              // beside larger launches
  const char* reason;
  bool alone = false;  // few blocks, and nothing else
};
constexpr Exception kExceptions[] = {
    {"cross_entropy mean", 2, true, "two numbers per row"},
    {"sums", 2, true, "the second pass: what a thousand blocks left"},
    {"batch_norm statistics", 2, true, "channels"},
    {"batch_norm parameters' gradients", 2, true, "channels"},
    {"layer_norm parameters' gradients", 2, true, "channels"},
    {"ids with their places", 2, true, "as many threads as ids"},
    {"digits of ids", 2, true, "a block has 2048 ids"},
    {"scan of digits", 2, true, "sixteen numbers per block of ids"},
    {"ids by digit", 2, true, "a block has 2048 ids"},
    {"sums of spans of a row", 2, true, "a span has 128 ids"},
    {"transposed matrices", 2, true, "weights"},
    {"rows of a bias", 2, true, "of a product that cublasLt doesn't do"},
    {"fill", 2, true, "a gradient of weights"},
    {"max", 2, true, "over another axis than the last: a thread a result; no model has it", true},
    {"resize places", 2, true, "rows and columns"},
    {"im2col", 9, false, "each pixel stands in nine windows; cuDNN needs none of it"},
};
const Exception* exception_of(std::string_view kernel) {
  for (const Exception& one : kExceptions) {
    if (one.kernel == kernel) return &one;
  }
  return nullptr;
}

/// Launches and scratch that an op may take where it is more than others may.
struct Budget {
  const char* op;
  bool backward;
  size_t launches;
  double scratch;  // of the largest tensor's bytes, in f32
  const char* reason;
};
constexpr size_t kLaunches = 4;
constexpr double kScratch = 0.1;
constexpr Budget kBudgets[] = {
    {"embedding", true, 16, 0.1, "a radix sort of four bits per pass"},
    {"layer_norm", true, kLaunches, 0.13, "shares of the parameters' gradients, a row a chunk"},
    {"conv2d", false, 24, 9, "im2col; cuDNN needs none"},
    {"conv2d", true, 48, 9, "as forward"},
    {"conv_transpose2d", false, 48, 9, "conv2d's gradient of images"},
    {"conv_transpose2d", true, 24, 9, "conv2d, and its gradient of weights"},
    {"conv_unit", false, 27, 2,
     "conv2d, and behind it a clip or silu and a sum, each from one tensor to another"},
    {"conv_pair", false, 54, 13, "two such, with im2col for the depthwise one and all channels between them"},
    {"elementwise_chain", false, 3, 2, "a launch and a tensor for each step"},
};
Budget budget_of(std::string_view op, bool backward) {
  for (const Budget& one : kBudgets) {
    if (one.op == op && one.backward == backward) return one;
  }
  return {"", backward, kLaunches, kScratch, ""};
}

/// While one lives, launches are noted and nothing runs.
class DryGrid {
 public:
  DryGrid() {
    cuda::simulated_watch = [this](const cuda::SimulatedLaunch& launch) {
      launches_.push_back(launch);
      return false;
    };
  }
  ~DryGrid() { cuda::simulated_watch = nullptr; }
  DryGrid(const DryGrid&) = delete;
  DryGrid& operator=(const DryGrid&) = delete;

  std::vector<cuda::SimulatedLaunch> take() { return std::exchange(launches_, {}); }

 private:
  std::vector<cuda::SimulatedLaunch> launches_;
};

class Launches : public testing::TestWithParam<SimulatedRow> {
 protected:
  /// An op's tensors, whose memory nobody touches.
  struct Case {
    std::vector<Tensor> inputs, outputs, grad_outputs, grad_inputs;
    std::vector<TensorSpec> specs;
    int64_t largest = 0;  // elements
  };

  Case make(const OpRecord& record, const OpSample& sample, DType dtype) const {
    Case made;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      TensorSpec spec = sample.inputs[i];
      const bool is_image = (record.image_inputs & bit(static_cast<int>(i))) != 0;
      if (is_floating(spec.dtype) &&
          (record.autocast != Autocast::kAsIs || is_image || sample.inputs.size() == 1))
        spec.dtype = dtype;
      made.specs.push_back(spec);
    }
    return made;
  }

  void fill(const OpRecord& record, const OpSample& sample, Case& made) const {
    const auto defined = std::make_unique<bool[]>(made.specs.size());
    std::fill_n(defined.get(), made.specs.size(), true);
    const auto tensor = [&](const TensorSpec& spec) {
      made.largest = std::max(made.largest, spec.shape.elements());
      return Tensor::empty(spec);
    };
    for (const TensorSpec& spec : made.specs) made.inputs.push_back(tensor(spec));
    const auto outputs = record.infer(made.specs, {defined.get(), made.specs.size()}, sample.attrs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      made.outputs.push_back(tensor(outputs[i]));
      if (i < static_cast<size_t>(record.visible_outputs))
        made.grad_outputs.push_back(Tensor::empty(outputs[i]));
    }
    for (size_t i = 0; i < made.specs.size(); ++i) {
      const bool wanted =
          (record.differentiable & bit(static_cast<int>(i))) != 0 && is_floating(made.specs[i].dtype);
      made.grad_inputs.push_back(wanted ? Tensor::empty(made.specs[i]) : Tensor());
    }
  }

  template <class Pass>
  void check(DryGrid& grid, std::string_view op, bool backward, const Case& made, const Pass& pass) const {
    SCOPED_TRACE(backward ? "backward" : "forward");
    reset_peak();
    const size_t before = allocator_statistics().used_bytes;
    pass();
    const auto scratch = static_cast<double>(allocator_statistics().peak_used_bytes - before);
    const std::vector<cuda::SimulatedLaunch> launches = grid.take();
    const Budget budget = budget_of(op, backward);
    EXPECT_LE(launches.size(), budget.launches);
    EXPECT_LE(scratch, budget.scratch * 4 * static_cast<double>(made.largest) + kSmallScratch);
    int64_t most_blocks = 0;
    for (const auto& [kernel, blocks, threads] : launches) {
      if (threads == 0) {  // a library's
        most_blocks = kEnoughBlocks;
        continue;
      }
      const Exception* const exception = exception_of(kernel);
      const int64_t each = exception != nullptr ? exception->threads : kThreadsAnElement;
      EXPECT_LE(blocks * threads, each * made.largest + threads) << kernel << ": " << blocks << " blocks";
      const bool alone = exception != nullptr && exception->alone;
      most_blocks = std::max(most_blocks, alone ? kEnoughBlocks : blocks);
      if (made.largest >= kLarge && (exception == nullptr || !exception->few_blocks)) {
        EXPECT_GE(blocks, kEnoughBlocks) << kernel;
      }
    }
    if (made.largest >= kLarge && !launches.empty()) {
      EXPECT_GE(most_blocks, kEnoughBlocks) << launches.front().kernel;
    }
  }
};

TEST_P(Launches, FillAGpuAndWasteNothing) {
  const OpRecord& record = *OpRegistry::builtin().get(GetParam().name)->record;
  const Kernels& kernels = *GetParam().kernels;
  int checked = 0;
  for (const OpSample& sample : bench_samples(record)) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(concat(sample.name, ", ", dtype_name(dtype)));
      Case made = make(record, sample, dtype);
      if (kernels.supports != nullptr && !kernels.supports(made.specs, sample.attrs)) continue;
      fill(record, sample, made);
      DryGrid grid;
      check(grid, record.name, false, made, [&] {
        kernels.forward({made.inputs, made.outputs, sample.attrs});
      });
      if (kernels.backward != nullptr) {
        check(grid, record.name, true, made, [&] {
          kernels.backward(
              {made.inputs, made.outputs, made.grad_outputs, made.grad_inputs, sample.attrs, made.specs});
        });
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 0) << "no sample of a real network's size; give its record one in bench";
}

/// What depends on a channel alone is all that a ResNet waits for, a hundred times per step: few channels a
/// block, for many loads at once.
TEST(LaunchesOfBatchNorm, FinishFewChannelsABlock) {
  const auto norm =
      std::find_if(simulated_table().begin(), simulated_table().end(),
                   [](const SimulatedRow& one) { return std::string_view(one.name) == "batch_norm"; });
  ASSERT_NE(norm, simulated_table().end());
  const Attrs attrs(BatchNormAttrs{});
  for (const int64_t channels : {64, 2048}) {
    const Tensor x = Tensor::empty({{200'704 * 64 / channels, channels}, DType::kBF16});
    const auto vector = [&] { return Tensor::empty({channels}); };
    const std::vector<Tensor> inputs = {x, vector(), vector(), vector(), vector()};
    std::vector<Tensor> outputs = {Tensor::empty(x.spec()), vector(), vector()};
    std::vector<Tensor> grads = {Tensor::empty(x.spec()), vector(), vector(), {}, {}};
    const std::vector<Tensor> grad_y = {Tensor::empty(x.spec())};
    DryGrid grid;
    norm->kernels->forward({inputs, outputs, attrs});
    norm->kernels->backward({inputs, outputs, grad_y, grads, attrs});
    const std::vector<cuda::SimulatedLaunch> launches = grid.take();
    ASSERT_EQ(launches.size(), 6u);
    for (const size_t i : {1, 4}) {
      EXPECT_EQ(launches[i].blocks * 8, channels) << launches[i].kernel;
      EXPECT_GE(launches[i].threads, 512) << launches[i].kernel;
    }
  }
}

/// The optimizers' launches: no memory is there at all.
TEST(LaunchesOfOptimizers, AreOfPacks) {
  constexpr int64_t kWeights = 25'000'000;  // ResNet-50's
  DryGrid grid;
  const cuda::FlatGroup flat{.count = kWeights};
  cuda::step_sgd(flat, {}, {.momentum = 0.9});
  cuda::step_adam(flat, {}, {});
  cuda::update_ema(nullptr, nullptr, kWeights, 0.999, nullptr);
  cuda::sum_squares(nullptr, kWeights, nullptr);
  cuda::restore(nullptr, nullptr, kWeights, nullptr);
  cuda::add(nullptr, nullptr, nullptr, kWeights, false);
  const std::vector<cuda::SimulatedLaunch> launches = grid.take();
  EXPECT_EQ(launches.size(), 7u);
  for (const auto& [kernel, blocks, threads] : launches) {
    if (std::string_view(kernel) == "adam coefficients") {  // once, not in each block
      EXPECT_EQ(blocks, 1);
      continue;
    }
    EXPECT_GE(blocks, kEnoughBlocks) << kernel;
    EXPECT_LE(blocks * threads, kWeights + threads) << kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Launches,
                         testing::ValuesIn(simulated_table().begin(), simulated_table().end()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace dlpipe::engine
