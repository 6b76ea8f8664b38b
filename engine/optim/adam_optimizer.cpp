#include "dlpipe/engine/optim/adam_optimizer.h"

#include <cmath>

#include "dlpipe/base/portable_math.h"
#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/optim/elementwise.h"

namespace dlpipe::engine {
namespace {

void update_run(const AdamStep& c, const ElementRun& run) {
  cpu::on_best_isa([c, count = run.count, weights = run.weights, gradients = run.gradients,
                    mean = run.state(0), square = run.state(1)]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      const float weight = c.keep * weights[i];
      const float gradient = gradients[i] + c.decay * weight;
      mean[i] += c.take1 * (gradient - mean[i]);
      square[i] = c.keep2 * square[i] + c.take2 * (gradient * gradient);
      weights[i] = weight - c.step_size * (mean[i] / (std::sqrt(square[i]) * c.root_scale + c.epsilon));
    }
  });
}

class AdamOptimizer final : public ElementwiseOptimizer {
 public:
  AdamOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments, bool decoupled)
      : ElementwiseOptimizer(std::move(parameters), arguments, a_float_each({"mean", "square"})),
        arguments_(arguments),
        decoupled_(decoupled) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    lr_ = lr;
    step_ = step;
  }
  void update(const ElementRun& run) const override {
    update_run(adam_step(arguments_, decoupled_, lr_, step_, run), run);
  }
  void update_flat(const FlatGroups::Part& part) const override {
    part.code.adam(part.flat, part.scalars,
                   {arguments_.beta1, arguments_.beta2, arguments_.epsilon, arguments_.weight_decay,
                    decoupled_, part.lr_scale, part.decay_scale});
  }

 private:
  OptimizerArguments arguments_;
  bool decoupled_;
  double lr_ = 0.0;
  int64_t step_ = 0;
};

}  // namespace

AdamStep adam_step(const OptimizerArguments& arguments, bool decoupled, double lr, int64_t t,
                   const ElementRun& run) {
  const double rate = lr * run.lr_scale, decay = arguments.weight_decay * run.decay_scale;
  AdamStep step;
  step.take1 = static_cast<float>(1.0 - arguments.beta1);
  step.keep2 = static_cast<float>(arguments.beta2);
  step.take2 = static_cast<float>(1.0 - arguments.beta2);
  step.step_size = static_cast<float>(rate / (1.0 - portable_power(arguments.beta1, t)));
  step.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - portable_power(arguments.beta2, t)));
  step.epsilon = static_cast<float>(arguments.epsilon);
  step.decay = decoupled ? 0.0f : static_cast<float>(decay);
  step.keep = decoupled ? 1.0f - static_cast<float>(rate * decay) : 1.0f;
  return step;
}

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
