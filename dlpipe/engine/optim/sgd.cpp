#include "dlpipe/engine/cpu/isa.h"
#include "dlpipe/engine/optim/elementwise.h"

namespace dlpipe::engine {
namespace {

struct Coefficients {
  float lr = 0.0f;
  float momentum = 0.0f;
  float decay = 0.0f;   // added to the gradient as decay * weight
  float shrink = 0.0f;  // the weight first loses this share of itself: decoupled decay
};

template <bool kMomentum, bool kNesterov>
void update_run(const Coefficients& c, const ElementRun& run) {
  const float keep = 1.0f - c.shrink;
  cpu::on_best_isa([c, keep, count = run.count, weights = run.weights, gradients = run.gradients,
                    velocity = run.states[0]]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      const float weight = keep * weights[i];
      float direction = gradients[i] + c.decay * weight;
      if constexpr (kMomentum) {
        velocity[i] = c.momentum * velocity[i] + direction;
        direction = kNesterov ? direction + c.momentum * velocity[i] : velocity[i];
      }
      weights[i] = weight - c.lr * direction;
    }
  });
}

/// Stochastic gradient descent as PyTorch's SGD (dampening 0): weight decay through the gradient, momentum,
/// Nesterov. With `decoupled`, decay as in SGDW (Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019), scaled by the learning rate as PyTorch's AdamW does: w *= 1 - lr * weight_decay.
class Sgd final : public ElementwiseOptimizer {
 public:
  Sgd(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : ElementwiseOptimizer(
            std::move(parameters), arguments,
            arguments.momentum != 0.0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{}),
        arguments_(arguments) {}

 protected:
  void begin_step(double lr, int64_t /*step*/) override {
    const bool decoupled = arguments_.decoupled;
    coefficients_.lr = static_cast<float>(lr);
    coefficients_.momentum = static_cast<float>(arguments_.momentum);
    coefficients_.decay = decoupled ? 0.0f : static_cast<float>(arguments_.weight_decay);
    coefficients_.shrink = decoupled ? static_cast<float>(lr * arguments_.weight_decay) : 0.0f;
  }

  void update(const ElementRun& run) const override {
    Coefficients coefficients = coefficients_;
    coefficients.lr *= run.lr_scale;
    coefficients.shrink *= run.lr_scale;
    if (!run.decays) coefficients.decay = coefficients.shrink = 0.0f;
    if (arguments_.momentum == 0.0) return update_run<false, false>(coefficients, run);
    if (arguments_.nesterov) return update_run<true, true>(coefficients, run);
    update_run<true, false>(coefficients, run);
  }

 private:
  OptimizerArguments arguments_;
  Coefficients coefficients_;
};

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  const OptimizerArguments& a = arguments;
  check_optimizer_argument(a.momentum >= 0.0 && a.momentum < 1.0, "sgd", "momentum", a.momentum,
                           "a number in [0, 1)");
  check_optimizer_argument(!a.nesterov || a.momentum > 0.0, "sgd", "momentum", a.momentum,
                           "a momentum above 0 with nesterov, or leave nesterov out");
  check_optimizer_argument(a.weight_decay >= 0.0, "sgd", "weight_decay", a.weight_decay,
                           "a number of at least 0");
  return std::make_unique<Sgd>(std::move(parameters), arguments);
}

}  // namespace

extern const OptimizerRecord sgd_optimizer;
const OptimizerRecord sgd_optimizer = {
    "sgd", "gradient descent; momentum, nesterov, weight_decay (through the gradient, or decoupled)", build};

}  // namespace dlpipe::engine
