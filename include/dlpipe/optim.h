// Optimizers by name, learning rate schedules, averaged weights and gradient clipping; and ElementwiseOptimizer, the base class
// for a custom optimizer whose step is a formula per element.
//
// An Optimizer shares the parameters it was built with and owns its state (momentum, moments). State dict names:
// "<parameter>.momentum", ..., and "steps". A program adds an OptimizerRecord to an OptimizerRegistry; engine/optim/README.md
// describes how to add an optimizer to dlpipe itself.
//
// Ownership: as above; Ema owns its copies. Threads: one thread; update() of an ElementwiseOptimizer is called from many. Cost:
// step() is one pass over each parameter's memory, in parallel. Its results are bit-identical for any number of threads and any
// instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "dlpipe/module.h"
#include "dlpipe/registry.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

// ---- learning rates: pure functions of their arguments, so that resume needs no state

/// An option by its name on `dlpipe train`'s command line, and its default value, written as on the command
/// line ("0.9", "false"; "" for an empty list).
struct OptionDefault {
  const char* name;
  const char* value;
};

struct ScheduleArguments {
  std::string name = "cosine";           // constant, step, cosine, linear, one_cycle
  double lr = 0.1;                       // peak
  int64_t total_steps = 1;               // warm-up included
  int64_t warmup_steps = 0;              // linear from lr * warmup_start; not with one_cycle
  double warmup_start = 0.0;             // also the start of one_cycle, as a ratio of lr
  std::vector<int64_t> milestones = {};  // step: multiply by gamma at each; step numbers, ascending
  double gamma = 0.1;
  double final_ratio = 0.0;  // cosine, linear, one_cycle: lr at the end / peak
  double peak_at = 0.3;      // one_cycle: share of steps before the peak
};

struct ScheduleRecord {
  static constexpr const char* kKind = "schedule";
  static std::span<const ScheduleRecord> built_in();

  const char* name;
  const char* help;
  /// The learning rate of a step after the warm-up.
  double (*rate)(const ScheduleArguments& schedule, int64_t step);
  std::span<const OptionDefault> options;  // the options that it uses
};
/// The possible values of ScheduleArguments::name.
using ScheduleRegistry = Registry<ScheduleRecord>;

/// The learning rate for step number `step` (the first is 0; from total_steps on the rate keeps its final value).
/// With W = warmup_steps, T = total_steps and s = step:
///   warm-up (s < W)  lr * (warmup_start + (1 - warmup_start) * s / W)
///   constant         lr
///   step             lr * gamma^(number of milestones <= s)
///   cosine           end + (lr - end) * (1 + cos(pi * (s - W) / (T - W))) / 2, end = lr * final_ratio
///                    (Loshchilov and Hutter, "SGDR", 2017, equation 5, one cycle)
///   linear           lr + (end - lr) * (s - W) / (T - W)
///   one_cycle        cosine from lr * warmup_start up to lr at step peak_at * T - 1, then down to the end at
///                    step T - 1 (Smith, "Super-convergence", 2018, with PyTorch's cosine shape)
/// kMisuse: an unknown name (with the nearest), or arguments out of range.
Result<double> learning_rate(const ScheduleArguments& schedule, int64_t step);

// ---- gradients before a step

/// The elements [begin, end) of a parameter that one process updates. A border within a parameter is a multiple of
/// kShareUnit, where sums over gradients and the blocks of states are also cut.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};
inline constexpr int64_t kShareUnit = 16384;

/// L2 norm over all defined gradients, computed in f64. The order of the sum depends on the sizes only, so that
/// the bits don't depend on threads or ISA.
double grad_norm(std::span<const NamedTensor> parameters);

/// Scales all gradients so that their global L2 norm is at most `max_norm` (by max_norm / (norm + 1e-6) if
/// that is below 1, as PyTorch does); returns the norm before scaling. If the norm isn't finite, nothing is scaled and
/// the caller decides what to do (--on-nonfinite). Throws Error (kMisuse) unless max_norm > 0.
double clip_grad_norm(std::span<const NamedTensor> parameters, double max_norm);
// ---- optimizers

struct OptimizerArguments {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  /// Weights shrink by 1 - lr * weight_decay (always in adamw) instead of through the gradient.
  bool decoupled = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// False: biases and the weights of normalisation layers (rank below 2) don't decay.
  bool decay_vectors = true;
  /// A factor for parameters whose names match `pattern` (a glob, "*.bias"); if several match, the last one
  /// applies.
  struct Scale {
    std::string pattern;
    double factor = 1.0;
  };
  std::vector<Scale> lr_scales = {};     // of the learning rate
  std::vector<Scale> decay_scales = {};  // of the weight decay
  /// muon: which parameters it orthogonalises, and how; the others are updated by sgd.
  struct Muon {
    std::vector<std::string> patterns = {};
    double momentum = 0.95;
    int iterations = 5;      // Newton-Schulz iterations
    bool normalize = false;  // weights are first scaled to a norm of sqrt(outputs)
  } muon = {};
};

class GradScaler;  // the loss scale of f16: engine/optim/gradients.h

/// A step on a device. The host never waits: results are in the device's memory, to be read later.
struct DeviceStep {
  double max_norm = std::numeric_limits<double>::infinity();  // of all gradients together
  Tensor loss = {};  // f32, one element: a step whose loss or gradients aren't finite changes nothing
  /// After such a step no later one changes anything either, unless the cause may have been too large a loss scale.
  bool halts = false;
  const GradScaler* scaler = nullptr;  // its loss scale is a factor in the gradients; null: 1
};
/// Results of a step, in the device's memory, valid until the next step.
struct DeviceStepFlags {
  const int32_t* found_inf = nullptr;  // a cuda::FoundInf; nonzero: the step changed nothing
  const float* norm = nullptr;         // of the gradients, before clipping
  const float* loss_scale = nullptr;   // of the next step; null: there is no scaler
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Applies the parameters' current gradients with learning rate `lr`. Parameters without a gradient are unchanged.
  virtual void step(double lr) = 0;
  /// The same for parameters on a device, in the device's stream. The rate is set by a separate call, because a
  /// captured graph keeps its arguments. Only for optimizers whose record sets `on_device`.
  virtual void set_rate_on_device(double lr) = 0;
  virtual DeviceStepFlags step_on_device(const DeviceStep& step) = 0;
  /// From now on step() changes only these elements, one Share per parameter, and keeps state for no others; other
  /// processes own the rest. Call it before the first step and before load_state, with the parameters on the host. Only
  /// for optimizers whose record sets `shares`.
  virtual void keep(const std::vector<Share>& shares) = 0;
  /// step() for an optimizer that keeps shares. Uses `gradients` instead of those in the parameters: one flat tensor per
  /// share with the share's number of elements; undefined if the parameter has no gradient.
  virtual void step_shares(double lr, std::span<const Tensor> gradients) = 0;
  /// Everything a resumed run needs. The tensors share storage with the optimizer's. For a share, names end in "@" and
  /// the number of its first element, and tensors are flat; the states of all processes together are the whole state.
  virtual std::vector<NamedTensor> state() const = 0;
  /// Loads a whole state or the states of all shares, however many processes saved them; an optimizer that keeps shares
  /// loads its own part. Throws Error (kMisuse) that names the first entry that fits no parameter; then nothing changes.
  virtual void load_state(const std::vector<NamedTensor>& state) = 0;
  virtual int64_t steps() const = 0;
};

struct OptimizerRecord {
  static constexpr const char* kKind = "optimizer";
  static std::span<const OptimizerRecord* const> built_in();  // optimizer_table()

  const char* name;
  const char* help;
  /// Throws Error (kMisuse) if an argument is out of range.
  std::unique_ptr<Optimizer> (*build)(std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments);
  /// The options that it uses, in addition to those that every optimizer uses (factors by name, decay-vectors).
  std::span<const OptionDefault> options;
  bool on_device = false;  // implements step_on_device
  /// Implements keep(): an element's step reads only its own block of kShareUnit elements.
  bool shares = false;
  /// An element's step reads only that element, and its state is f32: parameters may be parts.
  bool splits = false;
};
std::span<const OptimizerRecord* const> optimizer_table();
/// A value: copy builtin() and add to it.
using OptimizerRegistry = Registry<OptimizerRecord>;
/// The built-in optimizer called `name`; kMisuse with the nearest name if there is none.
Result<const OptimizerRecord*> find_optimizer(std::string_view name);

// Which optimizers can run on devices, according to their records.

/// The names of those that can: "adam, adamw, sgd".
std::string names_on_device(const OptimizerRegistry& optimizers);

/// Returns kUnsupported if `device` is not the host and `optimizer` can't run there; the message suggests those of
/// `optimizers` that can. `area` is the message's tag: "[train] --optimizer ...".
Status check_on_device(std::string_view area, const OptimizerRecord& optimizer,
                       const OptimizerRegistry& optimizers, const Device& device);

// ---- optimizers defined by a formula: each element's update depends only on that element's weight, gradient and state, except
// for parameters that are updated whole, like muon's matrices. The base class does slicing, threads, state tensors, state dict
// and checks.

class FlatGroups;  // parameters on a device: engine/optim/flat_groups.h
struct FlatPart;
struct FlatWhole;

/// One of the state tensors that an optimizer keeps for a parameter.
struct StateForm {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
  int64_t block = 1;  // elements of the parameter per element of the state; a divisor of 16,384
};
/// Returns the state that an optimizer keeps for a parameter of this shape.
using StateForms = std::function<std::vector<StateForm>(const Shape& parameter)>;
/// One f32 per element for each name.
StateForms a_float_each(std::vector<std::string> names);

/// Consecutive elements of one parameter, with their gradients and state.
struct ElementRun {
  static constexpr int kMaxStates = 4;
  float* weights = nullptr;
  const float* gradients = nullptr;
  std::array<void*, kMaxStates>
      states{};  // the beginning of the run's part of each; zeros before the first step
  int64_t count = 0;
  uint32_t key = 0;          // distinct for every run
  float lr_scale = 1.0f;     // factor on this parameter's learning rate
  float decay_scale = 1.0f;  // factor on its weight decay; 0 if it has none

  template <class T = float>
  T* state(size_t i) const {
    return static_cast<T*>(states[i]);
  }
};

class ElementwiseOptimizer : public Optimizer {
 public:
  ~ElementwiseOptimizer() override;
  void step(double lr) final;
  void set_rate_on_device(double lr) final;
  DeviceStepFlags step_on_device(const DeviceStep& step) final;
  void keep(const std::vector<Share>& shares) final;
  void step_shares(double lr, std::span<const Tensor> gradients) final;
  std::vector<NamedTensor> state() const final;
  void load_state(const std::vector<NamedTensor>& state) final;
  int64_t steps() const final;

 protected:
  /// At most ElementRun::kMaxStates states per parameter. Parameters for which `whole` returns true are updated by
  /// update_whole.
  ElementwiseOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
                       const StateForms& states,
                       const std::function<bool(const NamedTensor&)>& whole = nullptr);
  /// Called once before the updates of a step; `step` counts from 1.
  virtual void begin_step(double lr, int64_t step) = 0;
  /// Updates one run. Called concurrently from many threads.
  virtual void update(const ElementRun& run) const = 0;
  /// Called on the caller's thread for each parameter that is updated whole: `run` is all of it, `rows` the size of
  /// its first axis.
  virtual void update_whole(const ElementRun& run, int64_t rows) const { (void)run, (void)rows; }
  /// update_whole on a device.
  virtual void update_whole_on_device(const FlatWhole& whole) const { (void)whole; }
  /// Updates a flat group on a device; only called if the optimizer's record sets `on_device`.
  virtual void update_flat(const FlatPart& part) const;
  /// True: on a device, parameters that are updated whole are in flat groups with the others, and update_flat finds each
  /// in part.segments.
  virtual bool takes_segments() const { return false; }

 private:
  struct Slot {
    NamedTensor parameter;
    float lr_scale = 1.0f;
    float decay_scale = 1.0f;
    bool whole = false;
    std::optional<Share> share = {};  // none: the whole parameter
    std::vector<StateForm> forms = {};
    std::vector<Tensor> states = {};  // empty before the first gradient

    int64_t begin() const { return share ? share->begin : 0; }
    /// The shape of this process's part of a state tensor.
    Shape state_shape(const StateForm& form) const;
  };
  /// A state that is being loaded, and the parts loaded so far: elements [first, second) of the whole state, in any order.
  struct Loading {
    Tensor tensor;
    std::vector<std::pair<int64_t, int64_t>> parts;
    int64_t elements() const;
  };
  static void load_entry(const Slot& slot, const StateForm& form, const NamedTensor& entry,
                         std::optional<int64_t> begin_element, Loading* loading);
  FlatGroups& flat();
  /// Does a step with these gradients, one per slot: whole gradients, or those of the slots' shares.
  void step_with(double lr, std::span<const Tensor> gradients, bool are_shares);
  /// `gradients` points to the gradient of the element `first`.
  static void append_runs(Slot& slot, const float* gradients, int64_t first, int64_t run_length,
                          std::vector<ElementRun>* runs, uint32_t* key);

  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  std::unique_ptr<FlatGroups> flat_;  // for parameters on a device; created by the first step
  std::vector<size_t> flat_slots_;    // the slots that are in it
};

/// Throws Error (kMisuse, "[optimizer] ...") unless `valid`.
void check_optimizer_argument(bool valid, const char* optimizer, const char* argument, double value,
                              const char* expected);

// ---- averaged weights: they often evaluate better than the weights of the last step

/// Exponential moving averages of a model's parameters and floating buffers; other buffers are copied unchanged. Owns its
/// copies. To evaluate, save the model's own weights, then call `model.load_state_dict(ema.state())`.
class Ema {
 public:
  /// Starts with the model's weights. Throws Error (kMisuse) unless 0 <= decay < 1.
  Ema(const Module& model, double decay);
  /// average = decay * average + (1 - decay) * weight. The model must be the one it was built for. On a
  /// device the host doesn't wait, and nothing changes if *found_inf, in the device's memory, is nonzero.
  void update(const Module& model, const int32_t* found_inf = nullptr);
  /// Copies the model's counters (num_batches_tracked), which the host counts in each step. update() does this
  /// automatically for a model on the host.
  void copy_counts(const Module& model);
  /// Shares storage with the averages; names are the model's.
  std::vector<NamedTensor> state() const { return averages_; }
  /// Throws Error (kMisuse) unless `state` has exactly the model's names and shapes.
  void load_state(const std::vector<NamedTensor>& state);
  double decay() const { return decay_; }

 private:
  /// Tensors that are contiguous in a device's memory, both weights and averages, so that one kernel updates them.
  struct Run {
    size_t first = 0;  // the index of its first tensor in the model
    const float* weights = nullptr;
    Tensor averages;
  };
  void build_runs(const std::vector<NamedTensor>& weights);

  double decay_;
  std::vector<NamedTensor> averages_;
  std::vector<Run> runs_;  // on a device; the averages are views of them
};

}  // namespace dlpipe::engine
