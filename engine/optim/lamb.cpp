// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
// algorithm 2): adam's bias-corrected update plus weight_decay * weights, times |weights| / |that| of each
// tensor (1 where either norm is 0). As in the authors' own code, tensors that are spared from weight decay
// (decay_vectors, decay_scales) are spared from that factor too and take adam's step.
#include <cmath>
#include <vector>

#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/optim/adam_optimizer.h"
#include "dlpipe/engine/optim/lane_sum.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kSlice = 16384;  // elements, as elementwise.cpp's: part of the definition of sums

struct Squares {
  double weights = 0.0;
  double updates = 0.0;
};

/// Of an element whose moments are up to date. `c` is adam's with a rate of 1 and decay through the gradient.
DLPIPE_INLINE inline float update_of(const AdamStep& c, float weight, float mean, float square) {
  return c.step_size * (mean / (std::sqrt(square) * c.root_scale + c.epsilon)) + c.decay * weight;
}

Squares move_moments(const AdamStep& c, const ElementRun& run, int64_t begin, int64_t end) {
  Squares out;
  cpu::on_best_isa([c, &out, count = end - begin, weights = run.weights + begin,
                    gradients = run.gradients + begin, mean = run.state(0) + begin,
                    square = run.state(1) + begin]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      mean[i] += c.take1 * (gradients[i] - mean[i]);
      square[i] = c.keep2 * square[i] + c.take2 * (gradients[i] * gradients[i]);
    }
    out.weights = lane_sum(count, [=](int64_t i) DLPIPE_INLINE { return double{weights[i]} * weights[i]; });
    out.updates = lane_sum(count, [=](int64_t i) DLPIPE_INLINE {
      const double update = update_of(c, weights[i], mean[i], square[i]);
      return update * update;
    });
  });
  return out;
}

void move_weights(const AdamStep& c, float rate, const ElementRun& run, int64_t begin, int64_t end) {
  cpu::on_best_isa([c, rate, count = end - begin, weights = run.weights + begin, mean = run.state(0) + begin,
                    square = run.state(1) + begin]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) weights[i] -= rate * update_of(c, weights[i], mean[i], square[i]);
  });
}

class Lamb final : public ElementwiseOptimizer {
 public:
  Lamb(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : ElementwiseOptimizer(std::move(parameters), arguments, a_float_each({"mean", "square"}),
                             [](const NamedTensor&) { return true; }),
        arguments_(arguments) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    lr_ = static_cast<float>(lr);
    step_ = step;
  }
  void update(const ElementRun&) const override {}  // all are taken whole

  void update_whole(const ElementRun& run, int64_t /*rows*/) const override {
    ElementRun unscaled = run;
    unscaled.lr_scale = 1.0f;
    const AdamStep c = adam_step(arguments_, false, 1.0, step_, unscaled);
    std::vector<Squares> slices(static_cast<size_t>(divide_up(run.count, kSlice)));
    parallel_ranges(run.count, kSlice, [&](int64_t begin, int64_t end) {
      slices[static_cast<size_t>(begin / kSlice)] = move_moments(c, run, begin, end);
    });
    Squares all;
    for (const Squares& slice : slices) {
      all.weights += slice.weights;
      all.updates += slice.updates;
    }
    const bool adapts = run.decay_scale != 0.0f && all.weights > 0.0 && all.updates > 0.0;
    const float ratio = adapts ? static_cast<float>(std::sqrt(all.weights) / std::sqrt(all.updates)) : 1.0f;
    const float rate = lr_ * run.lr_scale * ratio;
    parallel_ranges(run.count, kSlice,
                    [&](int64_t begin, int64_t end) { move_weights(c, rate, run, begin, end); });
  }

  bool takes_segments() const override { return true; }
  void update_flat(const FlatGroups::Part& part) const override {
    cuda::LambOptions options;
    options.adam = {arguments_.beta1, arguments_.beta2, arguments_.epsilon, arguments_.weight_decay, false,
                    part.lr_scale,    part.decay_scale};
    options.always_adapt = part.decay_scale != 0.0f;
    part.code.lamb(part.flat, part.scalars, options, part.segments);
  }

 private:
  OptimizerArguments arguments_;
  float lr_ = 0.0f;
  int64_t step_ = 0;
};

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  check_adam_arguments("lamb", arguments);
  return std::make_unique<Lamb>(std::move(parameters), arguments);
}

constexpr OptionDefault kOptions[] = {
    {"lr", "0.01"}, {"beta1", "0.9"}, {"beta2", "0.999"}, {"epsilon", "1e-08"}, {"weight-decay", "0"}};

}  // namespace

extern const OptimizerRecord lamb_optimizer;
const OptimizerRecord lamb_optimizer = {
    "lamb", "adam's updates scaled to each tensor's own norm (You et al., 2020)", build, kOptions, true};

}  // namespace dlpipe::engine
