#include <gtest/gtest.h>

#include <cstring>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"

namespace dlpipe::engine {

namespace {

Tensor drawn(const Shape& shape, DType dtype, uint64_t stream) {
  RandomStream random(7, stream);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = 4 * static_cast<float>(random.uniform_double()) - 2;
  return cast(Tensor::from<float>(values, shape), dtype);
}

struct Leaves {
  Tensor x, branch, gamma, beta;

  Leaves(const Shape& shape, DType x_dtype, DType branch_dtype)
      : x(drawn(shape, x_dtype, 0)),
        branch(drawn(shape, branch_dtype, 1)),
        gamma(drawn({shape[-1]}, DType::kF32, 2)),
        beta(drawn({shape[-1]}, DType::kF32, 3)) {
    for (Tensor* leaf : {&x, &branch, &gamma, &beta}) leaf->set_requires_grad(true);
  }
};

void expect_same_bits(const Tensor& got, const Tensor& expected, const char* what) {
  ASSERT_EQ(got.spec(), expected.spec()) << what;
  EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), got.size_bytes()), 0) << what;
}

/// A loss that sees the sum, the norm or both.
void backward(const Tensor& s, const Tensor& y, bool sees_sum, bool sees_norm) {
  const Tensor of_norm = sees_norm ? sum(y * drawn(y.shape(), y.dtype(), 4)) : Tensor();
  const Tensor of_sum = sees_sum ? sum(s * drawn(s.shape(), s.dtype(), 5)) : Tensor();
  (!sees_sum ? of_norm : !sees_norm ? of_sum : of_norm + of_sum).backward();
}

}  // namespace

TEST(AddLayerNormOp, IsBitForBitTheTwoOps) {
  for (const Shape& shape : {Shape{2, 5, 24}, Shape{700, 37}}) {
    for (const DType x : {DType::kF32, DType::kBF16}) {
      for (const DType branch : {DType::kF32, DType::kBF16}) {
        for (const DType output : {DType::kF32, DType::kBF16}) {
          for (const int sees : {1, 2, 3}) {
            SCOPED_TRACE(concat(shape.to_string(), " ", dtype_name(x), " ", dtype_name(branch), " ",
                                dtype_name(output), " ", sees));
            const Leaves one(shape, x, branch), two(shape, x, branch);
            const auto [s, y] = add_layer_norm(one.x, one.branch, one.gamma, one.beta, 1e-5, output);
            const Tensor expected_s = two.x + two.branch;
            const Tensor expected_y = cast(layer_norm(expected_s, two.gamma, two.beta, 1e-5), output);
            expect_same_bits(s, expected_s, "s");
            expect_same_bits(y, expected_y, "y");
            backward(s, y, (sees & 1) != 0, (sees & 2) != 0);
            backward(expected_s, expected_y, (sees & 1) != 0, (sees & 2) != 0);
            // What is summed in bf16 between two ops is summed in f32 here.
            if (s.dtype() == DType::kF32 || sees != 3) {
              expect_same_bits(one.x.grad(), two.x.grad(), "gradient of x");
              expect_same_bits(one.branch.grad(), two.branch.grad(), "gradient of branch");
            }
            if ((sees & 2) == 0) continue;
            expect_same_bits(one.gamma.grad(), two.gamma.grad(), "gradient of gamma");
            expect_same_bits(one.beta.grad(), two.beta.grad(), "gradient of beta");
          }
        }
      }
    }
  }
}

TEST(AddLayerNormOp, RefusesABranchOfAnotherShape) {
  const Tensor gamma = Tensor::zeros({4});
  EXPECT_THROW(add_layer_norm(Tensor::zeros({3, 4}), Tensor::zeros({1, 4}), gamma, gamma), Error);
}

}  // namespace dlpipe::engine
