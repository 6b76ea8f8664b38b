// Kernels that take packs, tiles and chunks, over the simulated grid, on what their ops' samples leave out:
// whole packs and tails, memory that isn't aligned, sums in each shape of block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/cuda/loops/strided.h"
#include "engine/cuda/loops/sums.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/losses.h"
#include "engine/ops/reductions.h"
#include "tests/engine/cuda/check_simulated.h"

namespace dlpipe::engine {
namespace {

std::vector<OpSample> stretched_samples() {
  return {{"whole packs of a bias", {{{3, 5, 16}}, {{16}}}, Attrs{}, 0.5, 2},
          {"packs and one number", {{{2, 8}}, {{}}}, Attrs{}, 0.5, 2},
          {"packs of a row's", {{{6, 24}}, {{6, 1}}}, Attrs{}, 0.5, 2},
          {"both, in packs", {{{4, 1, 8}}, {{4, 3, 1}}}, Attrs{}, 0.5, 2},
          {"an axis of one", {{{1, 11}}, {{11}}}, Attrs{}, 0.5, 2}};
}
TEST(Packs, OfStretchedOperands) {
  for (const char* name : {"add", "sub", "mul", "div"}) check_simulated(name, stretched_samples);
}

TEST(Packs, OfEmbeddings) {
  check_simulated("embedding", []() -> std::vector<OpSample> {
    return {{"packs", {{{9, 24}}, {{2, 5}, DType::kI64}}, Attrs{}, -1, 1, 9},
            {"packs of spans", {{{3, 16}}, {{700}, DType::kI64}}, Attrs{}, -1, 1, 3}};
  });
}

TEST(Packs, OfRowsLongerThanABlock) {
  const auto rows = []() -> std::vector<OpSample> {
    return {{"rows", {{{3, 700}}}, SoftmaxAttrs{1}, -9, 9}};
  };
  check_simulated("softmax", rows);
  check_simulated("log_softmax", rows);
  check_simulated("cross_entropy", []() -> std::vector<OpSample> {
    const std::vector<TensorSpec> inputs = {{{3, 700}}, {{3}, DType::kI64}};
    return {{"plain", inputs, CrossEntropyAttrs{}, -9, 9, 700},
            {"smoothed", inputs, CrossEntropyAttrs{0.1}, -9, 9, 700}};
  });
}

TEST(Packs, SoftmaxOfMaskedRows) {
  const float low = -INFINITY;
  std::vector<float> values(600, low);
  values[1] = 1, values[300] = 2, values[599] = 1;
  const Tensor inputs[] = {Tensor::from<float>(values, {1, 600})};
  Tensor outputs[] = {Tensor::empty({1, 600})};
  simulated_kernels("softmax").forward({inputs, outputs, SoftmaxAttrs{1}});
  const double sum = 2 * std::exp(-1.0) + 1;
  EXPECT_NEAR(outputs[0].data<float>()[300], 1 / sum, 1e-6);
  EXPECT_NEAR(outputs[0].data<float>()[1], std::exp(-1.0) / sum, 1e-6);
  EXPECT_EQ(outputs[0].data<float>()[0], 0);
}

TEST(Packs, CrossEntropyOfMaskedRows) {
  std::vector<float> values(600, -INFINITY);
  values[1] = values[300] = 2;
  const std::vector<int64_t> label = {300};
  const Tensor inputs[] = {Tensor::from<float>(values, {1, 600}), Tensor::from<int64_t>(label, {1})};
  Tensor outputs[] = {Tensor::empty(Shape{}), Tensor::empty({1, 2})};
  simulated_kernels("cross_entropy").forward({inputs, outputs, CrossEntropyAttrs{}});
  EXPECT_NEAR(outputs[0].item(), std::log(2.0), 1e-6);
}

TEST(Packs, MaxOfALongRowIsTheFirstLargest) {
  constexpr int64_t kColumns = 500;
  std::vector<float> values(4 * kColumns, -3);
  values[70] = values[400] = 5;                             // a tie
  std::fill_n(values.begin() + kColumns, kColumns, -0.0f);  // 0 is no larger than -0
  values[kColumns + 200] = 0;
  values[2 * kColumns + 300] = values[2 * kColumns + 80] = std::numeric_limits<float>::quiet_NaN();
  values[2 * kColumns + 5] = INFINITY;
  std::fill_n(values.begin() + 3 * kColumns, kColumns, -INFINITY);
  const Tensor inputs[] = {Tensor::from<float>(values, {4, kColumns})};
  Tensor outputs[] = {Tensor::empty({4}), Tensor::empty({4}, DType::kI64)};
  simulated_kernels("max").forward({inputs, outputs, MaxAttrs{1, false}});
  EXPECT_EQ(outputs[1].to_doubles(), (std::vector<double>{70, 0, 80, 0}));
  EXPECT_EQ(outputs[0].data<float>()[0], 5);
  EXPECT_TRUE(std::isnan(outputs[0].data<float>()[2]));
}

TEST(AxisSums, InEveryShapeOfBlock) {
  struct {
    int64_t outer, terms, inner;
  } const cases[] = {{1, 300000, 1}, {1, 70000, 3}, {90000, 3, 1}, {2, 1, 100}, {5000, 17, 1}, {3, 500, 70},
                     {1, 8, 9000},   {7, 33, 33},   {1, 4000, 40}, {2, 0, 5},   {300, 300, 1}, {1, 2, 1}};
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << c.outer << " x " << c.terms << " x " << c.inner);
    std::vector<float> from(static_cast<size_t>(c.outer * c.terms * c.inner));
    // Small whole numbers: exact in any order.
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i * 7 % 11) - 5;
    std::vector<double> expected(static_cast<size_t>(c.outer * c.inner), 0.0);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      expected[static_cast<size_t>(at / (c.terms * c.inner) * c.inner + at % c.inner)] += from[i];
    }
    std::vector<float> to(expected.size(), NAN);
    const cuda::StoredTerms<float> terms{from.data(), c.terms, c.inner};
    cuda::sum_terms(terms, c.outer, c.terms, c.inner, 2.0f, to.data(), cpu_device());
    for (size_t i = 0; i < to.size(); ++i) ASSERT_EQ(to[i], 2 * expected[i]) << i;
  }
}

struct Product {
  static constexpr int kInputs = 3;
  float operator()(const float (&in)[3], int64_t) const { return in[0] * in[1] * in[2]; }
};

TEST(AxisSums, OfAMapOfStretchedOperands) {
  const struct {
    Shape all, own, other;  // own is summed to
  } cases[] = {{{3, 5, 7, 11}, {5, 1, 11}, {3, 5, 7, 11}},
               {{3, 5, 7, 11}, {3, 1, 7, 1}, {5, 1, 11}},
               {{40, 1, 30, 6}, {1, 1, 6}, {40, 1, 30, 1}},
               {{2, 1, 9000}, {2, 1, 1}, {1, 1, 9000}},
               {{4, 300, 70}, {}, {4, 300, 70}},
               {{2, 0, 5}, {2, 1, 5}, {2, 0, 5}}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.all.to_string() + " to " + c.own.to_string());
    const auto filled = [](const Shape& shape, int64_t factor) {
      const Tensor tensor = Tensor::empty(shape);
      // Small whole numbers: exact in any order.
      for (int64_t i = 0; i < shape.elements(); ++i)
        tensor.data<float>()[i] = static_cast<float>(i * factor % 5) - 2;
      return tensor;
    };
    const Tensor all = filled(c.all, 3), own = filled(c.own, 7), other = filled(c.other, 11);
    /// Where element i of `all` lies in an operand.
    const auto place = [&](const Shape& shape, int64_t i) {
      int64_t at = 0, step = 1;
      for (int axis = 1; axis <= shape.rank(); ++axis) {
        at += shape[-axis] == 1 ? 0 : i % c.all[-axis] * step;
        step *= shape[-axis];
        i /= c.all[-axis];
      }
      return at;
    };
    std::vector<double> expected(static_cast<size_t>(c.own.elements()), 0.0);
    for (int64_t i = 0; i < c.all.elements(); ++i) {
      const int64_t at = place(c.own, i);
      expected[static_cast<size_t>(at)] +=
          double{all.data<float>()[i]} * own.data<float>()[at] * other.data<float>()[place(c.other, i)];
    }
    uint32_t summed = 0;
    for (int axis = 1; axis <= c.all.rank(); ++axis) {
      if (axis > c.own.rank() || c.own[-axis] != c.all[-axis]) summed |= bit(c.all.rank() - axis);
    }
    const Tensor to = Tensor::full(c.own, NAN);
    cuda::sum_mapped<float, float>(c.all, {all, own, other}, summed, Product(), to);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(to.data<float>()[i], expected[i]) << i;
  }
}

/// Copies a permuted tensor of `bytes` an element and compares with what its strides say.
void check_permuted(const Shape& shape, const std::vector<int>& permutation, size_t bytes, size_t offset) {
  SCOPED_TRACE(testing::Message() << shape.to_string() << ", " << bytes << " bytes, " << offset << " in");
  const auto count = static_cast<size_t>(shape.elements());
  std::vector<uint64_t> memory(count * bytes / 8 + 16), copy(memory.size(), 0);
  auto* const from = reinterpret_cast<std::byte*>(memory.data()) + offset * bytes;
  auto* const to = reinterpret_cast<std::byte*>(copy.data()) + offset * bytes;
  for (size_t i = 0; i < count * bytes; ++i) from[i] = static_cast<std::byte>(i * 131 >> 3);
  std::vector<int64_t> own(static_cast<size_t>(shape.rank()), 1), strides, to_strides(own.size(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i)
    own[static_cast<size_t>(i)] = own[static_cast<size_t>(i) + 1] * shape[i + 1];
  Shape turned;
  for (const int axis : permutation) {
    turned.push_back(shape[axis]);
    strides.push_back(own[static_cast<size_t>(axis)]);
  }
  for (int i = turned.rank() - 2; i >= 0; --i)
    to_strides[static_cast<size_t>(i)] = to_strides[static_cast<size_t>(i) + 1] * turned[i + 1];
  cuda::strided_copy(to, to_strides, from, strides, turned, bytes);
  for (size_t i = 0; i < count; ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    for (int axis = turned.rank() - 1; axis >= 0; --axis) {
      at += rest % turned[axis] * strides[static_cast<size_t>(axis)];
      rest /= turned[axis];
    }
    ASSERT_EQ(std::memcmp(to + i * bytes, from + static_cast<size_t>(at) * bytes, bytes), 0) << i;
  }
  EXPECT_EQ(copy.back(), 0u);  // nothing behind
}

TEST(StridedCopy, PermutesInTilesAndUnitsOfEachSize) {
  for (const size_t bytes : {1, 2, 4, 8}) {
    for (const size_t offset : {0, 1, 4}) {
      check_permuted({40, 70}, {1, 0}, bytes, offset);              // tiles
      check_permuted({3, 33, 65}, {0, 2, 1}, bytes, offset);        // with an axis outside
      check_permuted({20, 5, 17, 2}, {2, 3, 1, 0}, bytes, offset);  // axes on both sides
      check_permuted({2, 6, 3, 16}, {0, 2, 1, 3}, bytes, offset);   // heads: whole units
      check_permuted({4, 9, 6}, {2, 0, 1}, bytes, offset);          // too small for tiles
      check_permuted({1, 7, 1}, {2, 1, 0}, bytes, offset);
      check_permuted({}, {}, bytes, offset);
    }
  }
}

TEST(Fill, RepeatsAnElementOfEachSize) {
  for (const size_t bytes : {1, 2, 4, 8}) {
    for (const size_t offset : {0, 3}) {
      constexpr size_t kCount = 3001;
      const uint64_t value = 0x123456789abcdef0u;
      std::vector<uint64_t> memory(kCount + 8, 0);
      auto* const to = reinterpret_cast<std::byte*>(memory.data()) + offset * bytes;
      cuda::fill_elements(to, kCount, value, bytes);
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(std::memcmp(to + i * bytes, &value, bytes), 0) << bytes << ", " << i;
      EXPECT_EQ(to[kCount * bytes], std::byte{0});
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
