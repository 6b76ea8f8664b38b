// sgd, and muon, which uses sgd's step for the parameters that it doesn't orthogonalise.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/optim.h"
#include "engine/core/device_memory.h"
#include "engine/core/isa.h"
#include "engine/optim/flat_groups.h"

namespace dlpipe::engine {

/// Stochastic gradient descent as in PyTorch's SGD (dampening 0): weight decay through the gradient, momentum,
/// Nesterov. With `decoupled`, decay as in SGDW (Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019), scaled by the learning rate as in PyTorch's AdamW: w *= 1 - lr * weight_decay.
class SgdOptimizer : public ElementwiseOptimizer {
 public:
  /// `keeps_momentum`: even if arguments.momentum is 0, because parameters that are updated `whole` need it.
  SgdOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
               bool keeps_momentum = false, const std::function<bool(const NamedTensor&)>& whole = nullptr);

 protected:
  void begin_step(double lr, int64_t step) override;
  void update(const ElementRun& run) const override;
  void update_flat(const FlatPart& part) const override;

  OptimizerArguments arguments_;

 private:
  struct Coefficients {
    float lr = 0.0f;
    float momentum = 0.0f;
    float decay = 0.0f;   // added to the gradient as decay * weight
    float shrink = 0.0f;  // the weight first shrinks by this fraction: decoupled decay
  };
  template <bool kMomentum, bool kNesterov>
  static void update_run(const Coefficients& c, const ElementRun& run);

  Coefficients coefficients_;
};

/// Error (kMisuse) that names `optimizer` if an argument of the step is out of range.
void check_sgd_arguments(const char* optimizer, const OptimizerArguments& arguments);

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

void SgdOptimizer::update_flat(const FlatPart& part) const {
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

std::unique_ptr<Optimizer> build_sgd(std::vector<NamedTensor> parameters,
                                     const OptimizerArguments& arguments) {
  check_sgd_arguments("sgd", arguments);
  return std::make_unique<SgdOptimizer>(std::move(parameters), arguments);
}

constexpr OptionDefault kSgdOptions[] = {
    {"lr", "0.1"}, {"momentum", "0.9"}, {"nesterov", "false"}, {"weight-decay", "0"}, {"decoupled", "false"}};

}  // namespace

extern const OptimizerRecord sgd_optimizer;
const OptimizerRecord sgd_optimizer = {
    "sgd",     "gradient descent with momentum; weight decay goes through the gradient unless --decoupled",
    build_sgd, kSgdOptions,
    true,      true,
    true};

namespace {

double norm(const float* values, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += double{values[i]} * values[i];
  return std::sqrt(sum);
}

bool takes(const OptimizerArguments::Muon& muon, const std::string& name) {
  return std::any_of(muon.patterns.begin(), muon.patterns.end(),
                     [&](const std::string& pattern) { return matches_glob(name, pattern); });
}

void transpose_into(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

/// Replaces x by an approximation of the nearest matrix with orthonormal rows; rows <= columns. Does `iterations`
/// of X <- a X + (b X X^T + c (X X^T)^2) X, which drives singular values towards 1 and leaves them between 0.7
/// and 1.2.
void orthogonalize(float* x, int64_t rows, int64_t columns, int iterations) {
  const NoGrad no_grad;
  const UseAutocast off(DType::kF32);
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  const auto scale = static_cast<float>(1.0 / (norm(x, rows * columns) + 1e-7));
  for (int64_t i = 0; i < rows * columns; ++i) x[i] *= scale;
  const Tensor matrix = Tensor::borrow(x, {rows, columns}, DType::kF32);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const Tensor gram = matmul(matrix, matrix, false, true);
    const Tensor polynomial = matmul(gram, gram);
    const float* const g = gram.data<float>();
    float* const s = polynomial.data<float>();
    for (int64_t i = 0; i < rows * rows; ++i) s[i] = kB * g[i] + kC * s[i];
    const Tensor product = matmul(polynomial, matrix);
    const float* const p = product.data<float>();
    for (int64_t i = 0; i < rows * columns; ++i) x[i] = kA * x[i] + p[i];
  }
}

/// The same for a matrix on a device, with ops; not in place.
Tensor orthogonalized(Tensor x, int iterations) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  x = div(x, scale(sqrt(sum(mul(x, x))), 1.0, 1e-7));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const Tensor gram = matmul(x, transpose(x, {1, 0}));
    const Tensor polynomial = add(scale(gram, kB), scale(matmul(gram, gram), kC));
    x = add(scale(x, kA), matmul(polynomial, x));
  }
  return x;
}

/// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024: the momentum of a matrix
/// (filters as [outputs, the rest]) is orthogonalised before it is applied. Without `normalize` the update is
/// scaled by sqrt(max(1, rows / columns)) and decay is decoupled. With it, weights are scaled to a norm of
/// sqrt(rows) before each step instead, as in the same author's CIFAR-10 speed runs. Other parameters use sgd's step.
class Muon final : public SgdOptimizer {
 public:
  Muon(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : SgdOptimizer(std::move(parameters), arguments, true,
                     [&](const NamedTensor& parameter) { return takes(arguments.muon, parameter.name); }) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    SgdOptimizer::begin_step(lr, step);
    lr_ = static_cast<float>(lr);
  }

  void update_whole(const ElementRun& run, int64_t rows) const override {
    const OptimizerArguments::Muon& muon = arguments_.muon;
    const int64_t columns = run.count / rows;
    const auto momentum = static_cast<float>(muon.momentum);
    const Tensor direction = Tensor::empty({run.count});
    float* const update = direction.data<float>();
    float* const velocity = run.state(0);
    for (int64_t i = 0; i < run.count; ++i) {
      velocity[i] = momentum * velocity[i] + run.gradients[i];
      update[i] = arguments_.nesterov ? run.gradients[i] + momentum * velocity[i] : velocity[i];
    }
    if (rows <= columns) {
      orthogonalize(update, rows, columns, muon.iterations);
    } else {
      const Tensor turned = Tensor::empty({run.count});
      transpose_into(update, rows, columns, turned.data<float>());
      orthogonalize(turned.data<float>(), columns, rows, muon.iterations);
      transpose_into(turned.data<float>(), columns, rows, update);
    }
    const float lr = lr_ * run.lr_scale;
    float keep = 1.0f, step = lr;
    if (muon.normalize) {
      const double length = norm(run.weights, run.count);
      if (length > 0.0) keep = static_cast<float>(std::sqrt(static_cast<double>(rows)) / length);
    } else {
      keep = 1.0f - lr * static_cast<float>(arguments_.weight_decay) * run.decay_scale;
      step = lr * std::sqrt(std::max(1.0f, static_cast<float>(rows) / static_cast<float>(columns)));
    }
    for (int64_t i = 0; i < run.count; ++i) run.weights[i] = keep * run.weights[i] - step * update[i];
  }

  void update_whole_on_device(const FlatWhole& whole) const override {
    const NoGrad no_grad;
    const OptimizerArguments::Muon& muon = arguments_.muon;
    const int64_t rows = whole.weights.size(0), columns = whole.weights.elements() / rows;
    const auto matrix = [&](const Tensor& x) { return reshape(x, {rows, columns}); };
    const Tensor weights = matrix(whole.weights), gradient = mul(matrix(whole.gradients), whole.grad_scale);
    const Tensor velocity = add(scale(matrix(whole.state), muon.momentum), gradient);
    Tensor update = arguments_.nesterov ? add(gradient, scale(velocity, muon.momentum)) : velocity;
    if (rows <= columns) {
      update = orthogonalized(update, muon.iterations);
    } else {
      update =
          transpose(orthogonalized(transpose(update, {1, 0}).contiguous_copy(), muon.iterations), {1, 0});
    }
    const Tensor lr = scale(whole.lr, whole.lr_scale);
    Tensor kept = weights;
    double step = 1;
    if (muon.normalize) {
      // Adding 1e-38 keeps the quotient finite if all weights are 0.
      const Tensor squares = scale(sum(mul(weights, weights)), 1.0, 1e-38);
      kept = scale(div(weights, sqrt(squares)), std::sqrt(static_cast<double>(rows)));
    } else {
      kept = sub(weights, mul(weights, scale(lr, arguments_.weight_decay * whole.decay_scale)));
      step = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
    }
    write(whole, whole.weights, sub(kept, mul(scale(update, step), lr)));
    write(whole, whole.state, velocity);
  }

 private:
  /// to = values, unless found_inf is set.
  static void write(const FlatWhole& whole, const Tensor& to, const Tensor& values) {
    const Tensor before = to.clone(), now = values.contiguous_copy();
    copy_memory(to.device(), to.raw(), now.device(), now.raw(), to.size_bytes());
    whole.code.restore(to.data<float>(), before.data<float>(), to.elements(), whole.found_inf);
  }

  float lr_ = 0.0f;
};

std::unique_ptr<Optimizer> build_muon(std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments) {
  check_sgd_arguments("muon", arguments);
  const OptimizerArguments::Muon& muon = arguments.muon;
  check_optimizer_argument(muon.momentum >= 0.0 && muon.momentum < 1.0, "muon", "muon-momentum",
                           muon.momentum, "a number in [0, 1)");
  check_optimizer_argument(muon.iterations >= 1 && muon.iterations <= 100, "muon", "muon-iterations",
                           muon.iterations, "a number in [1, 100]");
  for (const NamedTensor& parameter : parameters) {
    if (takes(muon, parameter.name) && parameter.tensor.rank() < 2) {
      refuse("muon", "'", parameter.name, "' is ", parameter.tensor.shape().to_string(),
             ", which is not a matrix; name only matrices, as in *.conv?.weight");
    }
  }
  return std::make_unique<Muon>(std::move(parameters), arguments);
}

constexpr OptionDefault kMuonOptions[] = {{"lr", "0.02"},
                                          {"momentum", "0.9"},
                                          {"nesterov", "false"},
                                          {"weight-decay", "0"},
                                          {"decoupled", "false"},
                                          {"muon", ""},
                                          {"muon-momentum", "0.95"},
                                          {"muon-iterations", "5"},
                                          {"muon-normalize", "false"}};

}  // namespace

extern const OptimizerRecord muon_optimizer;
const OptimizerRecord muon_optimizer = {
    "muon",
    "orthogonalised momentum for the matrices named by --muon, sgd for the others; with --nesterov as "
    "torch.optim.Muon, which iterates in bf16 instead of f32, refuses filters and has other defaults for "
    "learning rate and weight decay",
    build_muon, kMuonOptions, true};

}  // namespace dlpipe::engine
