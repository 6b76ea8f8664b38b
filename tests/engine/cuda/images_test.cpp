// What the image ops' own samples are too small for: several blocks, chunks and tiles, and memory that isn't
// aligned.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/ops/resize.h"
#include "tests/engine/check_op.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {
namespace {

/// An op with its simulated kernels in the cpu's place.
struct SimulatedOp {
  OpRecord record;
  OpRow row;

  explicit SimulatedOp(std::string_view name) {
    const OpRow* const builtin = OpRegistry::builtin().get(name);
    record = *builtin->record;
    record.layouts = bit(static_cast<int>(Layout::kPlain));
    record.choose_layout = [](std::span<const TensorSpec>, const Attrs&) { return LayoutChoice(); };
    row = {&record, {builtin->kernels[0], nullptr, nullptr}};
    for (const SimulatedRow& simulated : simulated_table()) {
      if (simulated.name == name) row.kernels[1] = simulated.kernels;
    }
  }
};

void check(std::string_view name, std::vector<OpSample> (*samples)()) {
  SimulatedOp op(name);
  ASSERT_NE(op.row.kernels[1], nullptr);
  op.record.samples = samples;
  check_op(op.row);
}

std::vector<OpSample> pool_samples() {
  const Pool2dAttrs usual{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  const Pool2dAttrs uneven{.kernel = {2, 3}, .stride = {1, 1}, .padding = {1, 1}, .count_include_pad = false};
  const Pool2dAttrs large{.kernel = {17, 17}, .stride = {3, 2}, .padding = {4, 8}, .ceil_mode = true};
  return {
      {"several blocks per row", {{{2, 9, 70, 32}}}, usual, -1, 1, 0},
      {"several blocks per row of odd channels", {{{3, 5, 70, 5}}}, uneven, -1, 1, 0},
      {"channels of f32 packs alone", {{{2, 6, 50, 12}}}, uneven, -1, 1, 0},
      {"large windows of whole packs", {{{1, 20, 22, 8}}}, large, -1, 1, 0},
  };
}

TEST(SimulatedImages, MaxPool2dInSeveralBlocks) {
  check("max_pool2d", pool_samples);
}
TEST(SimulatedImages, AvgPool2dInSeveralBlocks) {
  check("avg_pool2d", pool_samples);
}

TEST(SimulatedImages, ResizeInSeveralBlocks) {
  check("resize", []() -> std::vector<OpSample> {
    const ResizeAttrs nearest{.size = {150, 70}};
    const ResizeAttrs linear{
        .size = {11, 140}, .mode = ResizeMode::kLinear, .coordinates = ResizeCoordinates::kHalfPixel};
    return {
        {"several blocks per row", {{{2, 9, 70, 32}}}, linear, -1, 1, 0},
        {"several blocks of places", {{{1, 130, 9, 5}}}, nearest, -1, 1, 0},
        {"channels of f32 packs alone", {{{2, 23, 50, 12}}}, linear, -1, 1, 0},
    };
  });
}

TEST(SimulatedImages, GlobalAvgPoolOfSeveralTiles) {
  check("global_avg_pool", []() -> std::vector<OpSample> {
    return {
        {"a tile and part of one", {{{3, 7, 9, 72}}}, {}, -1, 1, 0},
        {"odd channels", {{{2, 9, 9, 37}}}, {}, -1, 1, 0},
        {"fewer pixels than lanes", {{{5, 2, 2, 136}}}, {}, -1, 1, 0},
    };
  });
}

TEST(SimulatedImages, BatchPrepInSeveralBlocks) {
  check("batch_prep", []() -> std::vector<OpSample> {
    std::vector<OpSample> samples;
    for (const int64_t channels : {1, 2, 3, 4}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        BatchPrep prep;
        prep.scale = {0.017f, 0.0175f, 0.0174f, 0.5f};
        prep.bias = {-2.1f, -2.03f, -1.8f, 0.25f};
        prep.dtype = dtype;
        samples.push_back({"several blocks", {{{3, 41, 43, channels}, DType::kU8}}, prep, 0, 0, 256});
      }
    }
    return samples;
  });
}

std::vector<SampleMix> some_mixes(int width, int height) {
  return {{1, 0.3f, {}}, {2, 0.5f, {3, 4, width - 5, height - 4}}, {}, {0, 0.123f, {0, 0, 1, height}}};
}

TEST(SimulatedImages, BatchPrepMixesInSeveralBlocks) {
  check("batch_prep", []() -> std::vector<OpSample> {
    std::vector<OpSample> samples;
    for (const int64_t channels : {1, 2, 3, 4}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        for (const int side : {41, 48}) {  // samples that aren't whole packs, and that are
          BatchPrep prep;
          prep.scale = {0.017f, 0.0175f, 0.0174f, 0.5f};
          prep.bias = {-2.1f, -2.03f, -1.8f, 0.25f};
          prep.dtype = dtype;
          prep.mix = some_mixes(side + 2, side);
          samples.push_back({"mixed", {{{4, side, side + 2, channels}, DType::kU8}}, prep, 0, 0, 256});
        }
      }
    }
    return samples;
  });
}

Tensor noise(const Shape& shape, uint64_t key, double mean = 0, double spread = 1) {
  RandomStream random(20261122, key);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(mean + spread * (random.uniform_double() * 2 - 1));
  return Tensor::from<float>(values, shape);
}

struct NormCase {
  const char* name;
  Shape shape;
  bool residual;
  BatchNormAttrs attrs;
};

/// y and the gradients of x, gamma, beta and the residual, of values that `stored` represents, computed in
/// `dtype`.
std::vector<Tensor> run_norm(const OpRow& row, const NormCase& norm, DType stored, DType dtype) {
  const auto image = [&](uint64_t key) { return cast(cast(noise(norm.shape, key), stored), dtype).detach(); };
  const Shape channels{norm.shape[-1]};
  const auto parameter = [&](uint64_t key) {
    return cast(noise(channels, key, 1, 0.5), dtype == DType::kF64 ? dtype : DType::kF32).detach();
  };
  std::vector<Tensor> inputs = {image(1), parameter(2), parameter(3), parameter(4), parameter(5)};
  if (norm.residual) inputs.push_back(image(6));
  for (const size_t i : {0, 1, 2, 5}) {
    if (i < inputs.size()) inputs[i].set_requires_grad(true);
  }
  const Tensor y = apply(row, inputs, norm.attrs)[0];
  y.backward(image(7));
  std::vector<Tensor> answer = {y.detach(), inputs[0].grad(), inputs[1].grad(), inputs[2].grad()};
  if (norm.residual) answer.push_back(inputs[5].grad());
  return answer;
}

TEST(SimulatedImages, BatchNormOfSeveralChunksAndTiles) {
  const SimulatedOp op("batch_norm");
  for (const NormCase& norm : {
           NormCase{"more chunks than lanes", {8399, 12}, false, {}},
           NormCase{"tiles and part of one", {5, 12, 13, 136}, true, {.relu = true}},
           NormCase{"odd channels", {4, 13, 13, 37}, true, {.relu = true}},
           NormCase{"residual alone", {4, 13, 13, 20}, true, {}},
           NormCase{"chunks that grow with the rows", {40001, 1}, false, {.relu = true}},
           NormCase{"eval", {4, 13, 13, 72}, true, {.training = false, .relu = true}},
           NormCase{"eval of odd channels", {4, 13, 13, 33}, false, {.training = false}},
       }) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const std::vector<Tensor> got = run_norm(op.row, norm, dtype, dtype);
      const std::vector<Tensor> exact = run_norm(op.row, norm, dtype, DType::kF64);  // by the reference
      const Tolerance& tolerance = tolerance_of(op.record, dtype);
      for (size_t i = 0; i < exact.size(); ++i) {
        const std::vector<double> a = got[i].to_doubles();
        const std::vector<double> b = exact[i].to_doubles();
        size_t wrong = 0;
        for (size_t k = 0; k < b.size(); ++k) {
          if (!(std::abs(a[k] - b[k]) <= tolerance.absolute + tolerance.relative * std::abs(b[k]))) ++wrong;
        }
        EXPECT_EQ(wrong, 0u) << norm.name << ", " << dtype_name(dtype) << ", result " << i;
      }
    }
  }
}

/// The same values, an element off sixteen bytes.
struct Unaligned {
  Tensor memory;
  Tensor tensor;

  explicit Unaligned(const Tensor& like) : memory(Tensor::empty({{like.elements() + 1}, like.dtype()})) {
    auto* data = static_cast<std::byte*>(memory.raw()) + dtype_size(like.dtype());
    std::memcpy(data, like.raw(), like.size_bytes());
    tensor = Tensor::borrow(data, like.shape(), like.dtype());
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0;
}

struct Answer {
  Tensor y;
  Tensor grad;
};
Answer run(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs) {
  inputs[0].set_requires_grad(true);
  const Tensor y = apply(row, inputs, attrs)[0];
  y.backward(cast(noise(y.shape(), 3), y.dtype()));
  return {y.detach(), inputs[0].grad()};
}

TEST(SimulatedImages, AlignmentChangesNoBit) {
  const Shape shape{3, 11, 13, 72};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor x = cast(noise(shape, 1), dtype);
    const Unaligned moved(x);
    const auto expect_same = [&](const char* name, const std::vector<Tensor>& others, const Attrs& attrs) {
      const SimulatedOp op(name);
      std::vector<Tensor> inputs = {x};
      for (const Tensor& other : others) inputs.push_back(other.clone());
      const Answer aligned = run(op.row, inputs, attrs);
      inputs = {moved.tensor};
      for (const Tensor& other : others) inputs.push_back(other.clone());
      const Answer unaligned = run(op.row, inputs, attrs);
      EXPECT_TRUE(same_bits(aligned.y, unaligned.y)) << name << ", " << dtype_name(dtype);
      EXPECT_TRUE(same_bits(aligned.grad, unaligned.grad)) << name << ", " << dtype_name(dtype);
    };
    expect_same("max_pool2d", {}, Pool2dAttrs());
    expect_same("avg_pool2d", {}, Pool2dAttrs());
    expect_same("resize", {}, ResizeAttrs{.size = {17, 7}, .mode = ResizeMode::kLinear});
    expect_same("global_avg_pool", {}, {});
    const Tensor one = Tensor::full({72}, 1.0);
    expect_same("batch_norm", {one, noise({72}, 2), noise({72}, 4), one}, BatchNormAttrs{.relu = true});
  }
}

TEST(SimulatedImages, UnalignedBytesArePrepared) {
  const SimulatedOp op("batch_prep");
  const Tensor bytes = cast(noise({3, 41, 43, 3}, 5, 128, 127), DType::kU8);
  const Unaligned moved(bytes);
  EXPECT_TRUE(
      same_bits(apply(op.row, {bytes}, BatchPrep())[0], apply(op.row, {moved.tensor}, BatchPrep())[0]));
}

TEST(SimulatedImages, MixedBatchesHaveTheCpusBits) {
  const SimulatedOp op("batch_prep");
  for (const int side : {41, 48}) {
    BatchPrep prep;
    prep.scale = {0.017f, 0.0175f, 0.0174f, 0};
    prep.bias = {-2.1f, -2.03f, -1.8f, 0};
    prep.mix = some_mixes(side, side);
    const Tensor bytes = cast(noise({4, side, side, 3}, 5, 128, 127), DType::kU8);
    const Tensor expected = batch_prep(bytes, prep);
    EXPECT_TRUE(same_bits(apply(op.row, {bytes}, prep)[0], expected));
    const Tensor mixes =
        Tensor::borrow(prep.mix.data(), {4, static_cast<int64_t>(sizeof(SampleMix))}, DType::kU8);
    EXPECT_TRUE(same_bits(apply(op.row, {bytes, mixes}, prep)[0], expected));
    EXPECT_TRUE(same_bits(apply(op.row, {Unaligned(bytes).tensor}, prep)[0], expected));
  }
}

TEST(SimulatedImages, NanIsTheLargestOfAWindowAndThenTheFirst) {
  const SimulatedOp op("max_pool2d");
  for (const int64_t channels : {8, 9}) {
    const auto width = static_cast<size_t>(channels);
    std::vector<float> values(4 * width, 1.0f);
    values[width + 2] = std::numeric_limits<float>::quiet_NaN();
    values[3 * width + 2] = std::numeric_limits<float>::quiet_NaN();
    for (size_t place = 0; place < 4; ++place)
      values[place * width + 3] = -std::numeric_limits<float>::infinity();
    Tensor x = Tensor::from<float>(values, {1, 2, 2, channels});
    x.set_requires_grad(true);
    const Tensor y = apply(op.row, {x}, Pool2dAttrs())[0];
    for (size_t c = 0; c < width; ++c) EXPECT_EQ(std::isnan(y.to_doubles()[c]), c == 2) << c;
    EXPECT_EQ(y.to_doubles()[3], -std::numeric_limits<double>::infinity());
    y.backward(Tensor::full({1, 1, 1, channels}, 1.0));
    const std::vector<double> grad = x.grad().to_doubles();
    for (size_t i = 0; i < grad.size(); ++i) {
      const size_t chosen = i % width == 2 ? 1 : 0;
      EXPECT_EQ(grad[i], i / width == chosen ? 1.0 : 0.0) << i;
    }
  }
}

TEST(SimulatedImages, RunningStatisticsFollowTheBatchWhoseMeanIsLarge) {
  const SimulatedOp op("batch_norm");
  const int64_t channels = 36;
  const Tensor x = noise({8, 20, 20, channels}, 7, 4096, 0.5);
  Tensor mean = Tensor::full({channels}, 2.0);
  Tensor var = Tensor::full({channels}, 3.0);
  const Tensor one = Tensor::full({channels}, 1.0);
  apply(op.row, {x, one, one, mean, var}, BatchNormAttrs{.momentum = 0.25});
  const std::vector<double> values = x.to_doubles();
  const auto width = static_cast<size_t>(channels);
  for (size_t c = 0; c < width; ++c) {
    double sum = 0;
    for (size_t i = c; i < values.size(); i += width) sum += values[i];
    double squares = 0;
    for (size_t i = c; i < values.size(); i += width)
      squares += (values[i] - sum / 3200) * (values[i] - sum / 3200);
    EXPECT_NEAR(mean.to_doubles()[c], 0.75 * 2 + 0.25 * sum / 3200, 1e-4);
    EXPECT_NEAR(var.to_doubles()[c], 0.75 * 3 + 0.25 * squares / 3199, 1e-6);
  }
  const Tensor before = mean.clone();
  apply(op.row, {x, one, one, mean, var}, BatchNormAttrs{.training = false});
  EXPECT_TRUE(same_bits(mean, before));
}

}  // namespace
}  // namespace dlpipe::engine
