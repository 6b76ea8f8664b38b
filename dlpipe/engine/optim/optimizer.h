// Optimizers and learning-rate schedules, by name.
//
// An Optimizer refers to the parameters it was built with (it shares them) and owns its state (momentum,
// moments). One thread. step() is one pass over each parameter's memory. State dict names:
// "<parameter>.momentum", ...
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/tensor.h"

namespace dlpipe::engine {

struct OptimizerArguments {
  double lr = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  bool decoupled = false;  // SGD: weight decay as in SGDW instead of through the gradient
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Applies the gradients now in the parameters, with `lr`. Parameters without a gradient are left alone.
  virtual void step(double lr) = 0;
  virtual std::vector<NamedTensor> state() const = 0;
  virtual void load_state(const std::vector<NamedTensor>& state) = 0;
  virtual int64_t steps() const = 0;
};

struct OptimizerRecord {
  const char* name;
  const char* help;
  std::unique_ptr<Optimizer> (*build)(std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments);
};
std::span<const OptimizerRecord* const> optimizer_table();
Result<const OptimizerRecord*> find_optimizer(std::string_view name);

/// Learning rate at a step: a pure function, so that resume needs no state.
struct ScheduleArguments {
  std::string name = "cosine";  // constant, step, cosine, one_cycle
  double lr = 0.1;              // peak
  int64_t total_steps = 1;
  int64_t warmup_steps = 0;  // linear from lr * warmup_start
  double warmup_start = 0.0;
  std::vector<int64_t> milestones;  // step: multiply by gamma at each
  double gamma = 0.1;
  double final_ratio = 0.0;  // cosine, one_cycle: lr at the end / peak
  double peak_at = 0.3;      // one_cycle: share of steps before the peak
};
Result<double> learning_rate(const ScheduleArguments& schedule, int64_t step);

/// Scales all gradients so that their global L2 norm is at most `max_norm`; answers the norm before.
double clip_grad_norm(std::span<const NamedTensor> parameters, double max_norm);

/// Exponential moving average of parameters (and buffers), kept in f32 beside the model.
class Ema {
 public:
  Ema(const Module& model, double decay);
  void update(const Module& model);
  std::vector<NamedTensor> state() const { return averages_; }
  void load_state(const std::vector<NamedTensor>& state);

 private:
  double decay_;
  std::vector<NamedTensor> averages_;
};

}  // namespace dlpipe::engine
