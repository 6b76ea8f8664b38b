#include "dlpipe/engine/optim/adam_optimizer.h"

#include <cmath>

#include "dlpipe/engine/cpu/isa.h"
#include "dlpipe/engine/optim/elementwise.h"

namespace dlpipe::engine {
namespace {

struct Coefficients {
  float take1 = 0.0f;  // 1 - beta1
  float beta2 = 0.0f;
  float take2 = 0.0f;       // 1 - beta2
  float step_size = 0.0f;   // lr / (1 - beta1^t)
  float root_scale = 0.0f;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 0.0f;
  float decay = 0.0f;   // added to the gradient as decay * weight
  float shrink = 0.0f;  // the weight first loses this share of itself: decoupled decay
};

void update_run(const Coefficients& c, const ElementRun& run) {
  const float keep = 1.0f - c.shrink;
  cpu::on_best_isa([c, keep, count = run.count, weights = run.weights, gradients = run.gradients,
                    mean = run.state(0), square = run.state(1)]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      const float weight = keep * weights[i];
      const float gradient = gradients[i] + c.decay * weight;
      mean[i] += c.take1 * (gradient - mean[i]);
      square[i] = c.beta2 * square[i] + c.take2 * (gradient * gradient);
      weights[i] = weight - c.step_size * (mean[i] / (std::sqrt(square[i]) * c.root_scale + c.epsilon));
    }
  });
}

/// Kingma and Ba, "Adam", 2015, algorithm 1, with its bias corrections folded into step_size and root_scale.
class AdamOptimizer final : public ElementwiseOptimizer {
 public:
  AdamOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments, bool decoupled)
      : ElementwiseOptimizer(std::move(parameters), arguments, a_float_each({"mean", "square"})),
        arguments_(arguments),
        decoupled_(decoupled) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    const auto power = static_cast<double>(step);
    Coefficients& c = coefficients_;
    c.take1 = static_cast<float>(1.0 - arguments_.beta1);
    c.beta2 = static_cast<float>(arguments_.beta2);
    c.take2 = static_cast<float>(1.0 - arguments_.beta2);
    c.step_size = static_cast<float>(lr / (1.0 - std::pow(arguments_.beta1, power)));
    c.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(arguments_.beta2, power)));
    c.epsilon = static_cast<float>(arguments_.epsilon);
    c.decay = decoupled_ ? 0.0f : static_cast<float>(arguments_.weight_decay);
    c.shrink = decoupled_ ? static_cast<float>(lr * arguments_.weight_decay) : 0.0f;
  }

  void update(const ElementRun& run) const override {
    Coefficients coefficients = coefficients_;
    coefficients.step_size *= run.lr_scale;
    coefficients.shrink *= run.lr_scale * run.decay_scale;
    coefficients.decay *= run.decay_scale;
    update_run(coefficients, run);
  }

 private:
  OptimizerArguments arguments_;
  bool decoupled_;
  Coefficients coefficients_;
};

}  // namespace

void check_adam_arguments(const char* name, const OptimizerArguments& a) {
  check_optimizer_argument(a.beta1 >= 0.0 && a.beta1 < 1.0, name, "beta1", a.beta1, "a number in [0, 1)");
  check_optimizer_argument(a.beta2 >= 0.0 && a.beta2 < 1.0, name, "beta2", a.beta2, "a number in [0, 1)");
  check_optimizer_argument(a.epsilon > 0.0, name, "epsilon", a.epsilon, "a number above 0");
  check_optimizer_argument(a.weight_decay >= 0.0, name, "weight_decay", a.weight_decay,
                           "a number of at least 0");
}

std::unique_ptr<Optimizer> build_adam(const char* name, std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments, bool decoupled) {
  check_adam_arguments(name, arguments);
  return std::make_unique<AdamOptimizer>(std::move(parameters), arguments, decoupled);
}

}  // namespace dlpipe::engine
