// Optimizers by name; learning rates are in schedule.h, clipping in clip.h, averages of weights in ema.h.
//
// An Optimizer refers to the parameters it was built with (it shares them) and owns its state (momentum,
// moments). One thread. step() is one pass over each parameter's memory, in parallel; the result is the same
// bits on any number of threads and any ISA. State dict names: "<parameter>.momentum", ..., and "steps".
//
// Adding one: optim/NAME.cpp with `extern const OptimizerRecord NAME_optimizer;`,
// tests/engine/optim/NAME_test.cpp and `dlpipe_register(optimizer NAME DIR optim)`; see README.md.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/clip.h"  // IWYU pragma: export
#include "dlpipe/engine/optim/ema.h"   // IWYU pragma: export
#include "dlpipe/engine/optim/option_default.h"
#include "dlpipe/engine/optim/schedule.h"  // IWYU pragma: export

namespace dlpipe::engine {

struct OptimizerArguments {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  bool decoupled =
      false;  // weights shrink by 1 - lr * weight_decay (always so in adamw), not through the gradient
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// False: biases and the weights of normalisation layers (rank below 2) don't decay.
  bool decay_vectors = true;
  /// A factor for parameters whose names match `pattern` (a glob, "*.bias"); where several match, the last
  /// one counts.
  struct Scale {
    std::string pattern;
    double factor = 1.0;
  };
  std::vector<Scale> lr_scales = {};     // of the learning rate
  std::vector<Scale> decay_scales = {};  // of the weight decay
  /// muon: which parameters it orthogonalises, and how; the rest are sgd's.
  struct Muon {
    std::vector<std::string> patterns = {};
    double momentum = 0.95;
    int iterations = 5;      // of Newton and Schulz
    bool normalize = false;  // weights are first scaled to a norm of sqrt(outputs)
  } muon = {};
};

class GradScaler;

/// A step on a device. Nothing of it waits: what it found is in the device's memory, to be read later.
struct DeviceStep {
  double max_norm = std::numeric_limits<double>::infinity();  // of all gradients together
  Tensor loss = {};  // f32, one element: a step whose loss or gradients aren't finite changes nothing
  /// Nor does a later one, unless the gradients' scale may have been what was too large.
  bool halts = false;
  const GradScaler* scaler = nullptr;  // whose scale the gradients are times too large; null: 1
};
/// On the device, until the next step.
struct DeviceStepFlags {
  const int32_t* found_inf = nullptr;  // a cuda::FoundInf; not 0: the step changed nothing
  const float* norm = nullptr;         // of the gradients, before clipping
  const float* loss_scale = nullptr;   // of the next step; null: there is no scaler
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Applies the gradients now in the parameters, with `lr`. Parameters without a gradient are left alone.
  virtual void step(double lr) = 0;
  /// The same for parameters on a device, in its stream, with the rate that was set before (apart, since what
  /// a graph captured keeps its arguments); only optimizers whose record says `on_device`.
  virtual void set_rate_on_device(double lr) = 0;
  virtual DeviceStepFlags step_on_device(const DeviceStep& step) = 0;
  /// From now on step() changes only these elements, one Share for each of the parameters, and there is state for no
  /// others: the rest is other processes'. Before the first step and load_state, on the host; only optimizers whose
  /// record says `shares`.
  virtual void keep(const std::vector<Share>& shares) = 0;
  /// step() of an optimizer that keeps shares, with their gradients alone instead of those in the parameters: flat, of
  /// as many elements as the share; undefined where a parameter has none.
  virtual void step_shares(double lr, std::span<const Tensor> gradients) = 0;
  /// Everything a resumed run needs. The tensors share storage with the optimizer's. Of a share, names end in "@" and
  /// the first element's number, and tensors are flat; the states of all processes together are the whole.
  virtual std::vector<NamedTensor> state() const = 0;
  /// A whole state or those of all shares, whoever's they were; an optimizer that keeps shares takes what is its own.
  /// Error (kMisuse) naming the first entry that fits no parameter; then nothing has been changed.
  virtual void load_state(const std::vector<NamedTensor>& state) = 0;
  virtual int64_t steps() const = 0;
};

struct OptimizerRecord {
  static constexpr const char* kKind = "optimizer";
  static std::span<const OptimizerRecord* const> built_in();  // optimizer_table()

  const char* name;
  const char* help;
  /// Error (kMisuse) when an argument is out of range.
  std::unique_ptr<Optimizer> (*build)(std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments);
  /// The options that it looks at, beside those that every optimizer takes (factors by name, decay-vectors).
  std::span<const OptionDefault> options;
  bool on_device = false;  // has step_on_device
  bool shares = false;     // has keep(): no element's step looks at others than its block of kShareUnit
  bool splits =
      false;  // each element's step looks at that one alone, and its state is an f32: parameters may be parts
};
std::span<const OptimizerRecord* const> optimizer_table();
/// A value: copy builtin() and add to it.
using OptimizerRegistry = Registry<OptimizerRecord>;
/// A built-in one; kMisuse with the nearest name when there is none.
Result<const OptimizerRecord*> find_optimizer(std::string_view name);

}  // namespace dlpipe::engine
