#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/core/allocator.h"
#include "engine/core/kernel_table.h"
#include "engine/core/observers.h"

namespace dlpipe::engine {
namespace {

TEST(LinearOp, UnderAutocastComputesInBf16AndGivesTheWeightAnF32Gradient) {
  Tensor x = Tensor::full({4, 8}, 0.5);
  Tensor weight = Tensor::full({3, 8}, 0.25);
  weight.set_requires_grad(true);
  const UseAutocast autocast(DType::kBF16);
  const Tensor y = linear(x, weight, Tensor());
  EXPECT_EQ(y.dtype(), DType::kBF16);
  sum(y).backward();
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(weight.grad().to_doubles(), std::vector<double>(24, 2.0));
}

struct LinearCase {
  int64_t rows, in, out;
  bool bias;
};

Tensor signed_noise(const Shape& shape, uint64_t key, DType dtype) {
  RandomStream random(20261122, key);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(random.uniform_double() * 2 - 1);
  return cast(Tensor::from<float>(values, shape), dtype).detach();
}

/// y, and the gradients of x, weight and bias; by one op or by two. x has a NaN and, to leave -0 at the bias,
/// a row of zeros.
std::vector<Tensor> linear_then(const LinearCase& c, DType dtype, Activation activation, bool together) {
  Tensor x = signed_noise({c.rows, c.in}, 1, DType::kF32);
  if (c.rows > 2 && c.in > 0) {
    x.data<float>()[c.in] = NAN;
    std::fill_n(x.data<float>() + 2 * c.in, c.in, 0.0f);
  }
  x = cast(x, dtype).detach().set_requires_grad(true);
  Tensor weight = signed_noise({c.out, c.in}, 2, dtype).set_requires_grad(true);
  Tensor bias = signed_noise({c.out}, 3, DType::kF32);
  bias.data<float>()[0] = -0.0f;
  bias = c.bias ? cast(bias, dtype).detach().set_requires_grad(true) : Tensor();
  const Tensor y =
      together ? linear(x, weight, bias, activation) : activate(linear(x, weight, bias), activation);
  y.backward(signed_noise(y.shape(), 4, dtype));
  return {y.detach(), x.grad(), weight.grad(), c.bias ? bias.grad() : Tensor()};
}

void expect_same_memory(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                        const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    EXPECT_EQ(std::memcmp(got[i].raw(), expected[i].raw(), expected[i].size_bytes()), 0) << what << ", " << i;
  }
}

TEST(LinearOp, WithAnActivationGivesTheBitsOfTwoOps) {
  for (const char* kernel : {"onednn", "blocks"}) {
    for (const LinearCase& c :
         {LinearCase{6, 5, 3, true}, LinearCase{1, 7, 9, false}, LinearCase{4, 0, 3, true},
          LinearCase{300, 130, 210, true}, LinearCase{257, 64, 640, false}}) {
      kernel_table().set(
          dlpipe::concat("gemm ", c.rows, "x", c.out, "x", c.in, " nt f32 ", isa_name(kernel_isa())),
          {kernel, 1, 1});
      for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
        for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
          expect_same_memory(
              linear_then(c, dtype, activation, true), linear_then(c, dtype, activation, false),
              dlpipe::concat(kernel, " ", c.rows, "x", c.in, " to ", c.out, ", ", dtype_name(dtype),
                             activation == Activation::kRelu ? ", relu" : ", gelu"));
        }
      }
    }
  }
  kernel_table().clear();
}

// In inference mode the kernel doesn't depend on the number of rows. Under NoGrad alone it is the step's: what is made again in
// backward has the bits of then.
TEST(LinearOp, AnswersDoNotDependOnTheBatch) {
  kernel_table().clear();
  const Tensor x = signed_noise({40, 257}, 1, DType::kF32), bias = signed_noise({19}, 3, DType::kF32);
  const Tensor weight = signed_noise({19, 257}, 2, DType::kF32);
  const Tensor step = linear(x, weight, bias);
  {
    const NoGrad no_grad;
    expect_same_memory({linear(x, weight, bias)}, {step}, "without a gradient");
  }
  const InferenceMode mode;
  const Tensor all = linear(x, weight, bias);
  for (const int64_t rows : {1, 2, 4, 5, 24, 39}) {
    const Tensor few = linear(slice(x, 0, 0, rows), weight, bias);
    expect_same_memory({few}, {slice(all, 0, 0, rows).contiguous_copy()}, std::to_string(rows));
  }
  kernel_table().clear();
}

TEST(LinearOp, OfNoOutputsHasAGradientOfZeros) {
  for (const Backend backend : {Backend::kReference, Backend::kCpu}) {
    const UseBackend use(backend);
    Tensor x = Tensor::full({4, 3, 8}, 0.5).set_requires_grad(true);
    const Tensor y = linear(x, Tensor::zeros({0, 8}), Tensor::zeros({0}));
    Tensor::full({4, 3, 8}, 7.0);  // what the gradient's memory held before
    y.backward(Tensor::zeros({4, 3, 0}));
    EXPECT_EQ(x.grad().to_doubles(), std::vector<double>(4 * 3 * 8, 0.0));
  }
}

struct Memory {
  size_t kept = 0;  // with y, for backward
  size_t peak = 0;
};

Memory memory_of(Activation activation, bool together) {
  const Tensor x = signed_noise({1024, 64}, 1, DType::kF32).set_requires_grad(true);
  const Tensor weight = signed_noise({256, 64}, 2, DType::kF32);
  const size_t before = allocator_statistics().used_bytes;
  reset_peak();
  const Tensor y =
      together ? linear(x, weight, Tensor(), activation) : activate(linear(x, weight, Tensor()), activation);
  return {allocator_statistics().used_bytes - before, allocator_statistics().peak_used_bytes - before};
}

/// What the allocator takes for so many floats, which is more than they have.
size_t allocated_bytes(int64_t floats) {
  const size_t before = allocator_statistics().used_bytes;
  const Tensor held = Tensor::empty({floats});
  return allocator_statistics().used_bytes - before;
}

// relu's backward wants y alone, gelu's also what it read.
TEST(LinearOp, WithAnActivationKeepsWhatTwoOpsKeepAndMakesOneOutputLess) {
  const size_t output = 1024 * 256 * sizeof(float);
  const size_t packed = allocated_bytes(256 * 64);  // weights, while a product of blocks runs
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    const Memory two = memory_of(activation, false), one = memory_of(activation, true);
    EXPECT_EQ(one.kept, two.kept);
    if (activation == Activation::kRelu) {
      EXPECT_LE(one.peak + output, two.peak + packed);
    } else {
      EXPECT_LE(one.peak, two.peak + packed);
    }
  }
}

TEST(LinearOp, IsProfiledWithItsActivationAndTheActivationsOwnBackward) {
  const OpProfile profile;
  Tensor x = Tensor::full({4, 8}, 0.5).set_requires_grad(true);
  const Tensor weight = Tensor::full({3, 8}, 0.25);
  sum(linear(x, weight, Tensor(), Activation::kRelu)).backward();
  std::vector<std::string> seen;
  for (const OpCost& cost : profile.costs())
    seen.push_back(
        dlpipe::concat(cost.op, cost.backward ? " back" : "", " ", cost.op == "sum" ? "" : cost.kernel));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"linear back ", "linear with relu", "relu back ", "sum ",
                                            "sum back "}));
}

}  // namespace
}  // namespace dlpipe::engine
