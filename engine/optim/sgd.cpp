#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/optim/sgd_optimizer.h"

namespace dlpipe::engine {

template <bool kMomentum, bool kNesterov>
void SgdOptimizer::update_run(const Coefficients& c, const ElementRun& run) {
  const float keep = 1.0f - c.shrink;
  cpu::on_best_isa([c, keep, count = run.count, weights = run.weights, gradients = run.gradients,
                    velocity = run.state(0)]() DLPIPE_INLINE {
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

SgdOptimizer::SgdOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
                           bool keeps_momentum, const std::function<bool(const NamedTensor&)>& whole)
    : ElementwiseOptimizer(
          std::move(parameters), arguments,
          a_float_each(keeps_momentum || arguments.momentum != 0.0 ? std::vector<std::string>{"momentum"}
                                                                   : std::vector<std::string>{}),
          whole),
      arguments_(arguments) {}

void SgdOptimizer::begin_step(double lr, int64_t /*step*/) {
  const bool decoupled = arguments_.decoupled;
  coefficients_.lr = static_cast<float>(lr);
  coefficients_.momentum = static_cast<float>(arguments_.momentum);
  coefficients_.decay = decoupled ? 0.0f : static_cast<float>(arguments_.weight_decay);
  coefficients_.shrink = decoupled ? static_cast<float>(lr * arguments_.weight_decay) : 0.0f;
}

void SgdOptimizer::update(const ElementRun& run) const {
  Coefficients coefficients = coefficients_;
  coefficients.lr *= run.lr_scale;
  coefficients.shrink *= run.lr_scale * run.decay_scale;
  coefficients.decay *= run.decay_scale;
  if (arguments_.momentum == 0.0) return update_run<false, false>(coefficients, run);
  if (arguments_.nesterov) return update_run<true, true>(coefficients, run);
  update_run<true, false>(coefficients, run);
}

void SgdOptimizer::update_flat(const FlatGroups::Part& part) const {
  cuda::SgdOptions options;
  options.momentum = arguments_.momentum;
  options.nesterov = arguments_.nesterov;
  options.weight_decay = arguments_.weight_decay;
  options.decoupled = arguments_.decoupled;
  options.lr_scale = part.lr_scale;
  options.decay_scale = part.decay_scale;
  part.code.sgd(part.flat, part.scalars, options);
}

void check_sgd_arguments(const char* optimizer, const OptimizerArguments& a) {
  check_optimizer_argument(a.momentum >= 0.0 && a.momentum < 1.0, optimizer, "momentum", a.momentum,
                           "a number in [0, 1)");
  check_optimizer_argument(!a.nesterov || a.momentum > 0.0, optimizer, "momentum", a.momentum,
                           "a momentum above 0 with nesterov, or leave nesterov out");
  check_optimizer_argument(a.weight_decay >= 0.0, optimizer, "weight_decay", a.weight_decay,
                           "a number of at least 0");
}

namespace {

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  check_sgd_arguments("sgd", arguments);
  return std::make_unique<SgdOptimizer>(std::move(parameters), arguments);
}

constexpr OptionDefault kOptions[] = {
    {"lr", "0.1"}, {"momentum", "0.9"}, {"nesterov", "false"}, {"weight-decay", "0"}, {"decoupled", "false"}};

}  // namespace

extern const OptimizerRecord sgd_optimizer;
const OptimizerRecord sgd_optimizer = {
    "sgd", "gradient descent with momentum; weight decay goes through the gradient unless --decoupled",
    build, kOptions,
    true,  true,
    true};

}  // namespace dlpipe::engine
