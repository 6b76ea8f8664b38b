// LAMB over flat groups on the simulated grid, against plain loops.
#include <gtest/gtest.h>

#include "tests/engine/cuda/flat_rig.h"

namespace dlpipe::engine::cuda {
namespace {

using namespace test;  // NOLINT: the rig alone

/// LAMB in plain loops: moments in f32 as adam's, norms in f64.
class PlainLamb {
 public:
  PlainLamb(Device& device, const LambOptions& options)
      : options_(options),
        weights_(device.weights.values()),
        mean_(weights_.size(), 0.0f),
        square_(weights_.size(), 0.0f) {}

  const std::vector<float>& weights() const { return weights_; }

  void step(Device& device, int64_t t) {
    const AdamOptions& o = options_.adam;
    const double decay = o.weight_decay * o.decay_scale;
    size_t begin = 0;
    for (const int64_t size : device.sizes) {
      std::vector<double> updates;
      double weight_squares = 0;
      double update_squares = 0;
      for (size_t i = begin; i < begin + static_cast<size_t>(size); ++i) {
        const float gradient = device.grad_scale * device.gradients[static_cast<int64_t>(i)];
        mean_[i] += static_cast<float>(1 - o.beta1) * (gradient - mean_[i]);
        square_[i] = static_cast<float>(o.beta2) * square_[i] +
                     static_cast<float>(1 - o.beta2) * (gradient * gradient);
        const double mean = mean_[i] / (1 - std::pow(o.beta1, t));
        const double root = std::sqrt(square_[i] / (1 - std::pow(o.beta2, t)));
        updates.push_back(mean / (root + o.epsilon) + decay * weights_[i]);
        weight_squares += double{weights_[i]} * weights_[i];
        update_squares += updates.back() * updates.back();
      }
      const bool adapts = (options_.always_adapt || decay != 0) && weight_squares > 0 && update_squares > 0;
      const double ratio = adapts ? std::sqrt(weight_squares / update_squares) : 1.0;
      for (size_t i = 0; i < updates.size(); ++i)
        weights_[begin + i] =
            static_cast<float>(weights_[begin + i] - double{device.lr} * o.lr_scale * ratio * updates[i]);
      begin += static_cast<size_t>(size);
    }
  }

 private:
  LambOptions options_;
  std::vector<float> weights_, mean_, square_;
};

TEST(FlatSteps, LambGivesThePlainLoopsWeights) {
  const std::vector<LambOptions> all = {
      {.adam = {.epsilon = 1e-6, .weight_decay = 0.1}},
      {},  // adam's step
      {.adam = {.beta1 = 0.8, .beta2 = 0.95}, .always_adapt = true},
      {.adam = {.weight_decay = 0.1, .lr_scale = 0.3f, .decay_scale = 0.7f}}};
  for (const LambOptions& options : all) {
    for (const std::vector<int64_t>& sizes : {kSizes, {3}, {kFlatChunk}, {1, 1, 1, 1, 1, 1}, {0, 5, 0}}) {
      for (const int64_t shift : {0, 1}) {
        Device device(sizes, shift);
        std::fill_n(device.weights.data(), std::min<int64_t>(7, device.count), 0.0f);  // a tensor of norm 0
        device.grad_scale = 0.3f;
        LambMemory memory(device);
        PlainLamb plain(device, options);
        for (int step = 0; step < 4; ++step) {
          device.new_gradients();
          device.lr = rate_of(step);
          plain.step(device, step + 1);
          step_lamb(device.flat(), device.scalars(), options, memory.segments());
          device.end();
          expect_close(device.weights.values(), plain.weights(), kTerms);
        }
      }
    }
  }
}

TEST(FlatSteps, LambWithoutDecayIsAdam) {
  Device lamb(kSizes);
  Device adam(kSizes);
  LambMemory memory(lamb);
  for (int step = 0; step < 3; ++step) {
    for (Device* device : {&lamb, &adam}) {
      device->new_gradients();
      device->lr = rate_of(step);
    }
    step_lamb(lamb.flat(), lamb.scalars(), {}, memory.segments());
    step_adam(adam.flat(), adam.scalars(), {.epsilon = 1e-6});
    lamb.end();
    adam.end();
    expect_close(lamb.weights.values(), adam.weights.values(), kTerms);
  }
}

TEST(FlatSteps, EveryElementIsInOnePieceOfItsSegment) {
  Device device(kSizes);
  LambMemory memory(device);
  const Segments segments = memory.segments();
  std::vector<int> times(static_cast<size_t>(device.count), 0);
  for (int64_t slot = 0; slot < lamb_slots(device.count, segments.count); ++slot) {
    const Piece piece = piece_of(segments, slot);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      EXPECT_LE(memory.offsets[static_cast<size_t>(piece.segment)], i);
      EXPECT_LT(i, memory.offsets[static_cast<size_t>(piece.segment) + 1]);
      EXPECT_EQ(i / kFlatChunk, piece.begin / kFlatChunk);
      ++times[static_cast<size_t>(i)];
    }
  }
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
}

}  // namespace
}  // namespace dlpipe::engine::cuda
