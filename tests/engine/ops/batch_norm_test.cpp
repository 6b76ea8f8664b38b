#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/allocator.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"
#include "engine/ops/batch_norm.h"
#include "tests/engine/distance.h"

namespace dlpipe::engine {
namespace {

Tensor noise(const Shape& shape, uint64_t key, double mean = 0, double spread = 1) {
  RandomStream random(20261121, key);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(mean + spread * (random.uniform_double() * 2 - 1));
  return Tensor::from<float>(values, shape);
}

/// Layer state of `channels`, as a module has it.
struct State {
  explicit State(int64_t channels)
      : gamma(noise({channels}, 90, 1, 0.5)),
        beta(noise({channels}, 91)),
        mean(Tensor::zeros({channels})),
        var(Tensor::full({channels}, 1.0)) {
    gamma.set_requires_grad(true);
    beta.set_requires_grad(true);
  }
  Tensor gamma, beta, mean, var;
};

/// Bytes that live on in the graph when whoever got the output has dropped it.
size_t kept_bytes(bool relu) {
  State state(16);
  Tensor x = noise({4, 32, 32, 16}, 1);
  x.set_requires_grad(true);
  const size_t before = allocator_statistics().used_bytes;
  const Tensor behind = mean(batch_norm(x, state.gamma, state.beta, state.mean, state.var, {.relu = relu}));
  const size_t kept = allocator_statistics().used_bytes - before;
  behind.backward();
  return kept;
}

TEST(BatchNormOp, KeepsItsOutputForRelusGradientAlone) {
  const size_t image_bytes = size_t{4} * 32 * 32 * 16 * sizeof(float);
  EXPECT_GE(kept_bytes(true), image_bytes);
  EXPECT_LT(kept_bytes(false), image_bytes / 8);
}

TEST(BatchNormOp, RunningStatisticsFollowPyTorchsRule) {
  // x = 1 2 3 6: mean 3, unbiased variance 14/3.
  const std::vector<float> values = {1, 2, 3, 6};
  State state(1);
  const BatchNormAttrs attrs{.momentum = 0.1};
  const uint32_t version = state.mean.version();
  batch_norm(Tensor::from<float>(values, {4, 1}), state.gamma, state.beta, state.mean, state.var, attrs);
  EXPECT_FLOAT_EQ(static_cast<float>(state.mean.item()), 0.3f);
  EXPECT_FLOAT_EQ(static_cast<float>(state.var.item()), 0.9f + 0.1f * 14.0f / 3.0f);
  EXPECT_GT(state.mean.version(), version);  // a graph that saved them would notice
  BatchNormAttrs eval = attrs;
  eval.training = false;
  batch_norm(Tensor::from<float>(values, {4, 1}), state.gamma, state.beta, state.mean, state.var, eval);
  EXPECT_FLOAT_EQ(static_cast<float>(state.mean.item()), 0.3f);
}

TEST(BatchNormOp, ALargeMeanDoesNotDrownTheVariance) {
  for (Layout layout : {Layout::kPlain, Layout::kBlocked8}) {
    const Tensor x = noise({8, 20, 20, 64}, 7, 4096, 0.5);
    State state(64);
    const BatchNormAttrs attrs{.momentum = 1.0};
    batch_norm(reorder(x, layout), state.gamma, state.beta, state.mean, state.var, attrs);
    const std::vector<double> values = x.to_doubles();
    for (int64_t c = 0; c < 64; ++c) {
      double mean = 0;
      double squares = 0;
      for (size_t i = static_cast<size_t>(c); i < values.size(); i += 64) mean += values[i] / 3200;
      for (size_t i = static_cast<size_t>(c); i < values.size(); i += 64) {
        squares += (values[i] - mean) * (values[i] - mean);
      }
      EXPECT_NEAR(state.var.to_doubles()[static_cast<size_t>(c)], squares / 3199, 1e-4 * squares / 3199);
    }
  }
}

struct Answer {
  Tensor y, dx, dresidual, dgamma, dbeta;
};
Answer run(const Shape& shape, Layout layout, DType dtype, bool residual, bool training = true) {
  Tensor x = cast(noise(shape, 1), dtype).detach().set_requires_grad(true);
  Tensor other = cast(noise(shape, 2), dtype).detach().set_requires_grad(true);
  State state(shape[-1]);
  const BatchNormAttrs attrs{.training = training, .relu = true};
  const auto in = [&](const Tensor& t) { return layout == Layout::kPlain ? t : reorder(t, layout); };
  const Tensor y = batch_norm(in(x), state.gamma, state.beta, state.mean, state.var, attrs,
                              residual ? in(other) : Tensor());
  y.backward(cast(noise(shape, 3), dtype));
  return {plain(y.detach()), x.grad(), residual ? other.grad() : Tensor(), state.gamma.grad(),
          state.beta.grad()};
}
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0);
}
bool same_bits(const Answer& a, const Answer& b) {
  return same_bits(a.y, b.y) && same_bits(a.dx, b.dx) && same_bits(a.dresidual, b.dresidual) &&
         same_bits(a.dgamma, b.dgamma) && same_bits(a.dbeta, b.dbeta);
}

TEST(BatchNormOp, GivesTheSameBitsOnAnyNumberOfThreadsAndAnyInstructionSet) {
  const int former = engine_threads();
  for (const Shape& shape :
       {Shape{6, 13, 11, 64}, Shape{9, 30, 31, 16}, Shape{5, 17, 3, 7}, Shape{700, 33}}) {
    for (Layout layout : {Layout::kPlain, Layout::kBlocked8, Layout::kBlocked16}) {
      if (shape.rank() != 4 || shape[3] % layout_block(layout) != 0) {
        if (layout != Layout::kPlain) continue;
      }
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        if (layout != Layout::kPlain && dtype != DType::kF32) continue;
        set_engine_threads(1);
        const Answer one = run(shape, layout, dtype, true);
        for (int threads : {2, 3, 8}) {
          set_engine_threads(threads);
          EXPECT_TRUE(same_bits(run(shape, layout, dtype, true), one))
              << shape.to_string() << ", " << threads;
        }
        // The vector kernels do the same additions in the same order on all of them.
        const cpu::LimitIsa limit(cpu::Isa::kBaseline);
        EXPECT_TRUE(same_bits(run(shape, layout, dtype, true), one)) << shape.to_string() << ", baseline";
      }
    }
  }
  set_engine_threads(former);
}

TEST(BatchNormOp, EqualsTheReferenceForShapesThatFillChunksUnevenly) {
  for (const Shape& shape :
       {Shape{3, 29, 31, 24}, Shape{40, 40, 37, 8}, Shape{2, 65, 67, 40}, Shape{5000, 9}}) {
    for (bool residual : {false, true}) {
      Answer expected;
      {
        const UseBackend use(Backend::kReference);
        expected = run(shape, Layout::kPlain, DType::kF32, residual);
      }
      const Answer got = run(shape, Layout::kPlain, DType::kF32, residual);
      const auto near = [&](const Tensor& a, const Tensor& b, double tolerance, const char* what) {
        EXPECT_LE(test::largest_difference(a, b), tolerance) << what << " of " << shape.to_string();
      };
      near(got.y, expected.y, 1e-5, "output");
      near(got.dx, expected.dx, 1e-5, "gradient of images");
      near(got.dresidual, expected.dresidual, 0, "gradient of the residual");
      // Sums of up to 59,200 values of size 1 in f32 chunks.
      near(got.dgamma, expected.dgamma, 1e-2, "gradient of gamma");
      near(got.dbeta, expected.dbeta, 1e-2, "gradient of beta");
    }
  }
}

// Where there is no fast kernel (f16 on the CPU), and on the reference backend. Numbers of size 1 have 8 or 11 bits.
TEST(BatchNormOp, TakesLowImagesOnEveryBackend) {
  for (const auto& [dtype, rounding] : {std::pair(DType::kBF16, 0x1p-7), std::pair(DType::kF16, 0x1p-10)}) {
    for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
      for (const bool training : {true, false}) {
        const UseBackend use(backend);
        const Shape shape{6, 5, 4, 16};
        const Answer wide = run(shape, Layout::kPlain, DType::kF32, true, training);
        const Answer low = run(shape, Layout::kPlain, dtype, true, training);
        for (const Tensor& one : {low.y, low.dx, low.dresidual}) EXPECT_EQ(one.dtype(), dtype);
        for (const Tensor& one : {low.dgamma, low.dbeta}) EXPECT_EQ(one.dtype(), DType::kF32);
        // A relu lets through what another rounding stops: far apart in the gradients of one element.
        EXPECT_LE(test::distance(low.y, wide.y), 4 * rounding) << dtype_name(dtype);
        EXPECT_LE(test::distance(low.dgamma, wide.dgamma), 16 * rounding) << dtype_name(dtype);
        EXPECT_LE(test::distance(low.dbeta, wide.dbeta), 16 * rounding) << dtype_name(dtype);
      }
    }
  }
}

// A relu that makes zeros of NaN would hide a broken step from --on-nonfinite.
TEST(BatchNormOp, ReluKeepsNan) {
  for (const bool training : {true, false}) {
    Tensor x = noise({2, 3, 3, 16}, 1);
    x.data<float>()[5] = NAN;
    State state(16);
    BatchNormAttrs attrs;
    attrs.relu = true;
    attrs.training = training;
    const Tensor y = batch_norm(x, state.gamma, state.beta, state.mean, state.var, attrs);
    EXPECT_TRUE(std::isnan(y.to_doubles()[5])) << (training ? "training" : "evaluation");
    EXPECT_FALSE(std::isnan(y.to_doubles()[6]));
  }
}

/// Parts of a batch on threads of their own: each hands in its values, the last one there adds up in the parts' order.
class PeersOfThreads {
 public:
  explicit PeersOfThreads(int64_t parts)
      : given_(static_cast<size_t>(parts)),
        all_there_(parts, [this]() noexcept { add_up(); }),
        all_read_(parts) {}

  class Part final : public StatisticsPeers {
   public:
    Part(PeersOfThreads& peers, size_t index) : peers_(peers), index_(index) {}
    void sum(std::span<float> values) override {
      peers_.given_[index_] = {values.begin(), values.end()};
      peers_.all_there_.arrive_and_wait();
      std::ranges::copy(peers_.sum_, values.begin());
      peers_.all_read_.arrive_and_wait();
    }
    int64_t parts() const override { return static_cast<int64_t>(peers_.given_.size()); }
    bool leads() const override { return index_ == 0; }

   private:
    PeersOfThreads& peers_;
    size_t index_;
  };

 private:
  void add_up() noexcept {
    sum_ = given_.front();
    for (size_t part = 1; part < given_.size(); ++part) {
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += given_[part][i];
    }
  }

  std::vector<std::vector<float>> given_;
  std::vector<float> sum_;
  std::barrier<std::function<void()>> all_there_;
  std::barrier<> all_read_;
};

/// Rows [first, first + count) of the first axis.
Tensor rows_of(const Tensor& x, int64_t first, int64_t count) {
  return slice(x, 0, first, first + count).contiguous_copy();
}

struct Normalised {
  std::vector<double> y, dx, dgamma, dbeta, running_mean, running_var;
};

Normalised normalise(Backend backend, const Tensor& rows, const Tensor& weights, StatisticsPeers* peers) {
  const UseBackend use(backend);
  const UseStatisticsPeers ask(peers);
  State state(rows.shape()[-1]);
  Tensor x = rows.clone();
  x.set_requires_grad(true);
  const Tensor y = batch_norm(x, state.gamma, state.beta, state.mean, state.var, {.relu = true});
  sum(y * weights).backward();
  return {y.to_doubles(),
          x.grad().to_doubles(),
          state.gamma.grad().to_doubles(),
          state.beta.grad().to_doubles(),
          state.mean.to_doubles(),
          state.var.to_doubles()};
}

// Four parts that exchange sums give what the whole batch gives, in both kernels: its outputs, gradients of the images by
// parts, gradients of the parameters added up, running statistics in the part that leads.
TEST(BatchNormOp, PartsThatShareStatisticsAreTheWholeBatch) {
  constexpr int64_t kParts = 4, kRows = 3;
  const Tensor x = noise({kParts * kRows, 5, 4, 16}, 3, 2.0);
  const Tensor weights = noise({kParts * kRows, 5, 4, 16}, 4);
  for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
    const Normalised whole = normalise(backend, x, weights, nullptr);
    PeersOfThreads peers(kParts);
    std::vector<Normalised> parts(kParts);
    std::vector<std::thread> threads;
    for (int64_t part = 0; part < kParts; ++part) {
      threads.emplace_back([&, part] {
        PeersOfThreads::Part mine(peers, static_cast<size_t>(part));
        parts[static_cast<size_t>(part)] =
            normalise(backend, rows_of(x, part * kRows, kRows), rows_of(weights, part * kRows, kRows), &mine);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto near = [](double got, double expected) {
      EXPECT_NEAR(got, expected, 1e-4 + 1e-4 * std::abs(expected));
    };
    const size_t elements = parts[0].y.size();
    for (size_t i = 0; i < whole.y.size(); ++i) {
      near(parts[i / elements].y[i % elements], whole.y[i]);
      near(parts[i / elements].dx[i % elements], whole.dx[i]);
    }
    for (size_t c = 0; c < whole.dgamma.size(); ++c) {
      double dgamma = 0, dbeta = 0;
      for (const Normalised& part : parts) dgamma += part.dgamma[c], dbeta += part.dbeta[c];
      near(dgamma, whole.dgamma[c]);
      near(dbeta, whole.dbeta[c]);
      near(parts[0].running_mean[c], whole.running_mean[c]);
      near(parts[0].running_var[c], whole.running_var[c]);
      EXPECT_EQ(parts[1].running_mean[c], 0);
    }
  }
}

TEST(BatchNormOp, SaysWhatIsWrongWithItsInputs) {
  State state(4);
  const auto message = [&](const Tensor& x, const Tensor& residual) -> std::string {
    try {
      batch_norm(x, state.gamma, state.beta, state.mean, state.var, {}, residual);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_NE(message(noise({2, 3}, 1), Tensor()).find("[batch_norm] expected f32 gamma [3], got f32 [4]"),
            std::string::npos);
  EXPECT_NE(message(noise({1, 4}, 1), Tensor()).find("more than one value per channel"), std::string::npos);
  EXPECT_NE(message(noise({2, 4}, 1), noise({3, 4}, 1)).find("expected a residual like x"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::engine
