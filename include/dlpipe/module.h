// Modules: a tree of named parameters and buffers, with PyTorch's names ("layer1.0.conv1.weight").
//
// Parameters are f32 leaves that require gradients; buffers (running_mean, ...) don't. Names, shapes and order in state_dict
// are PyTorch's: conv weights OIHW, linear [out,in]. Weights are NaN until initialize(model, seed) or load_state_dict fills
// them, so that a forgotten initialisation shows in the first loss. The built-in models initialise themselves.
//
// Ownership: a Module owns its children (shared) and its tensors. Threads: one thread at a time; scopes and hooks belong to
// that thread, too. Cost: a call costs its ops; names are built when they are requested.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

class Collective;  // ranks that compute one run together: engine/collective/collective.h

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A split along an axis: each rank has its Collective::part_of() of it. If the axis consists of several `blocks`, such as
/// concatenated queries, keys and values, each block is split in the same way.
struct Split {
  int axis = 0;
  int64_t blocks = 1;
};

/// A parameter that is split over ranks, with the size of the whole along the split axis.
struct NamedSplit {
  std::string name;
  Split split;
  int64_t size = 0;
};

/// A parameter that several pipeline stages share, and the ranks of these stages: its gradient is the sum over them.
struct Tie {
  NamedTensor parameter;
  Collective* ranks = nullptr;
};

class StageLine;

/// The cost of computing the layer called `name` with all layers below it, in any unit.
using LayerCost = std::function<double(const std::string& name)>;

/// A tensor in a file, without its data.
struct NamedShape {
  std::string name;
  Shape shape;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Tensor forward(const Tensor& x) = 0;
  /// forward(x), then the forward hooks.
  Tensor operator()(const Tensor& x);
  /// activate((*this)(x), activation), in one pass over memory if forward_fused() supports it.
  Tensor operator()(const Tensor& x, Activation activation);
  /// The same in one pass, with the same bits. Undefined if this module doesn't support it, or if the value before the
  /// activation is needed by a forward hook of this module or because only this module is recomputed.
  Tensor forward_fused(const Tensor& x, Activation activation);
  /// The activation that the module before this one in a Sequential may compute instead of calling this module; kNone
  /// if this module is not such an activation, or has forward hooks or is recomputed.
  Activation fusible_activation() const;
  /// "Conv2d", "BatchNorm2d", ... for summaries.
  virtual std::string kind() const = 0;
  /// Floating-point operations of one forward call (a multiply-add counts as two), without children.
  virtual double flops(const TensorSpec& x, const TensorSpec& y) const;
  /// For a captured graph that no code builds: its JSON (graph/FORMAT.md); else "".
  virtual std::string graph_json() const { return {}; }
  /// Draws this module's own parameters (not the children's) from Philox streams keyed by
  /// (seed, prefix + parameter name); `prefix` is "" or ends with a dot. Resets buffers to their initial values.
  virtual void reset_parameters(uint64_t seed, const std::string& prefix);

  /// All parameters, depth first, in registration order, with full dotted names. A shared one occurs once.
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  /// Parameters and buffers together in PyTorch's order. The tensors share storage with the module's.
  std::vector<NamedTensor> state_dict() const;
  /// Why load_state_dict would refuse tensors with these names and shapes, naming the first ones: "2 missing:
  /// ..." Empty: it would accept them.
  std::string state_differences(const std::vector<NamedShape>& state) const;
  /// Copies tensors by name, converting floating dtypes. If `strict` and names are missing, unexpected or have another
  /// shape, throws kMisuse that lists them, and copies nothing. Returns the names that were not loaded: those of the
  /// module that are missing or have another shape in `state`, and those of `state` that are unknown here. A missing
  /// "num_batches_tracked" is not an error, because files from before PyTorch 0.4.1 lack it.
  std::vector<std::string> load_state_dict(const std::vector<NamedTensor>& state, bool strict = true);

  /// Moves parameters and floating buffers to `device`, in place; build optimizers afterwards. Counters
  /// (num_batches_tracked) stay on the host, which updates them.
  void to(Device& device);
  /// The device of the parameters; the host if there are none.
  Device& device() const;

  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// Sets requires_grad = false for parameters with names that match a glob ("layer1.*"); returns how many matched.
  /// Frozen batch norms also keep their running statistics.
  int freeze(std::string_view pattern);
  void zero_grad();
  /// Modules with names that match a glob ("layer?.*") are recomputed in backward instead of keeping their
  /// activations; returns how many matched. Of nested ones only the outermost counts.
  int checkpoint_activations(std::string_view pattern);

  /// Keeps this rank's part of the weights of every layer below that can be split. All `ranks` call it; together they compute
  /// what the whole module does. Inputs and outputs stay whole. Call it once, for a module on the host that has its weights,
  /// before its parameters are used (by an optimizer, for example). Layers that can't be split stay whole on every rank.
  /// Throws kMisuse if a layer can be split, but not over this number of ranks.
  virtual void split_over(Collective& ranks);
  /// The parameters that were split, by full name.
  std::vector<NamedSplit> splits() const;

  /// Keeps the layers and parameters of one pipeline stage; the stages are the ranks of `stages`, in order. Cuts so that the
  /// most expensive stage is as cheap as possible. Call it before split_over(), with the same preconditions. Throws kMisuse for
  /// a module that isn't a sequence of layers, or has too few.
  virtual void keep_stage(Collective& stages, const LayerCost& cost);
  /// What a stage exchanges with its neighbours; null: the module is not split into stages.
  virtual StageLine* stage_line() { return nullptr; }
  virtual std::vector<Tie> ties() const { return {}; }

  struct Named {
    std::string name;  // "" for the root
    Module* module;
  };
  /// This module and all below it, depth first, in registration order.
  std::vector<Named> modules();
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }

  /// Called after every forward call of this module, with its input and output. Used for summaries, and to find
  /// the first layer with an output that isn't finite.
  using ForwardHook = std::function<void(Module& module, const Tensor& x, const Tensor& y)>;
  /// Returns a number for remove_forward_hook() (HookScope calls it). Hooks are called in the order of registration.
  int64_t register_forward_hook(ForwardHook hook) {
    forward_hooks_.emplace(++last_hook_, std::move(hook));
    return last_hook_;
  }
  void remove_forward_hook(int64_t number) { forward_hooks_.erase(number); }
  bool has_forward_hooks() const { return !forward_hooks_.empty(); }

 protected:
  Tensor add_parameter(std::string name, Tensor tensor);
  Tensor add_buffer(std::string name, Tensor tensor);
  /// Removes all children and own parameters except those with these names.
  void keep_only(const std::unordered_set<std::string>& names);
  /// Replaces a parameter by this rank's part of it. Does nothing if `parameter` is undefined.
  void split_parameter(Tensor& parameter, const Split& split, const Collective& ranks);
  template <class M>
  std::shared_ptr<M> add_module(std::string name, std::shared_ptr<M> module) {
    children_.emplace_back(std::move(name), module);
    return module;
  }
  /// For modules with a second entry point besides forward(): runs the hooks on its result `y`.
  Tensor run_forward_hooks(const Tensor& x, Tensor y);
  /// activate(forward(x), activation) in one pass over memory; undefined: not supported.
  virtual Tensor forward_activated(const Tensor& x, Activation activation);
  /// The activation that this module is, if products can compute it; else kNone.
  virtual Activation activation() const { return Activation::kNone; }
  /// Whether the module must be called separately, because of a forward hook or recomputation.
  bool is_watched() const { return recomputed_ || !forward_hooks_.empty(); }

 private:
  template <class Visit>
  void visit(const std::string& prefix, const Visit& visitor);
  template <class Visit>
  void visit(const std::string& prefix, const Visit& visitor) const;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<NamedSplit> splits_;  // of its own parameters
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  std::map<int64_t, ForwardHook> forward_hooks_;
  int64_t last_hook_ = 0;
  bool training_ = true;
  bool recomputed_ = false;
};

/// Sets a model to eval mode for the lifetime of this object, which then restores each module's mode. The model must outlive
/// it. Like modules, for one thread at a time.
class EvalScope {
 public:
  explicit EvalScope(Module& model) {
    for (const Module::Named& named : model.modules())
      modes_.emplace_back(named.module, named.module->is_training());
    model.eval();
  }
  ~EvalScope() {
    // Outer ones first: train() also sets the mode of all modules below.
    for (const auto& [module, was_training] : modes_) module->train(was_training);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

/// Registers a forward hook on a model and on all modules below it for the lifetime of this object; other hooks stay. The model
/// must outlive it. Like modules, for one thread at a time.
class HookScope {
 public:
  /// `name` is the module's name in the model, "" for the model itself.
  using Hook = std::function<void(const std::string& name, Module& module, const Tensor& x, const Tensor& y)>;
  HookScope(Module& model, const Hook& hook) {
    for (const Module::Named& named : model.modules()) {
      hooks_.emplace_back(named.module,
                          named.module->register_forward_hook(
                              [hook, name = named.name](Module& module, const Tensor& x, const Tensor& y) {
                                hook(name, module, x, y);
                              }));
    }
  }
  ~HookScope() {
    for (const auto& [module, id] : hooks_) module->remove_forward_hook(id);
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  std::vector<std::pair<Module*, int64_t>> hooks_;
};

// ---- initial weights
//
// Every element is a pure function of (seed, full parameter name, index): weights don't depend on the number of threads, the
// order of layers, or the other layers of the model. All functions write in place, in parallel, f32.

/// Identifies the random stream that a parameter is drawn from.
struct InitKey {
  uint64_t seed = 0;
  std::string name;
};

/// Uniform in [low, high).
void fill_uniform(Tensor& tensor, const InitKey& key, double low, double high);
void fill_normal(Tensor& tensor, const InitKey& key, double mean, double standard_deviation);
void fill_constant(Tensor& tensor, double value);

/// Fan-in and fan-out of a weight [out, in, ...]: in and out times the size of the receptive field.
struct Fans {
  int64_t in = 1;
  int64_t out = 1;
};
Fans fans(const Shape& weight);

/// He et al., "Delving deep into rectifiers", 2015, equation 10 for a leaky ReLU of slope `a`, uniform:
/// bound sqrt(6 / ((1 + a^2) fan_in)). PyTorch's Conv2d and Linear use a = sqrt(5), so 1 / sqrt(fan_in).
void fill_kaiming_uniform(Tensor& weight, const InitKey& key, double a);
/// The same paper's equation 14 (backward case) for ReLU, normal: standard deviation sqrt(2 / fan_out).
void fill_kaiming_normal_fan_out(Tensor& weight, const InitKey& key);

/// Makes output channel o of a convolution's weight [out, in, KH, KW] the identity of input channel o, for o below
/// min(in, out): the filter becomes 1 in the center of that channel and 0 elsewhere. Other filters are unchanged.
void fill_dirac(Tensor& weight);

/// Initialises a weight (and bias, if defined) like PyTorch's Conv2d and Linear: both uniform within
/// 1 / sqrt(fan_in).
void reset_affine(Tensor& weight, Tensor& bias, uint64_t seed, const std::string& prefix);

/// Draws all parameters of the tree, each with its module's default initialisation.
void initialize(Module& model, uint64_t seed);
/// Like initialize(), but with convolution weights as in torchvision's resnets: kaiming normal, fan out.
void initialize_fan_out(Module& model, uint64_t seed);

namespace thread_state {

// For building a model only to load weights into it: drawing initial weights takes seconds for large models.

/// Whether this thread's modules keep NaN instead of drawing initial weights.
bool& leaves_uninitialized();
}  // namespace thread_state

/// While one with the value true lives, models built on this thread have weights of NaN (constant initial values, as in
/// norms, are set). Fill them all with Module::load_state_dict.
using LeaveUninitialized = ScopedValue<thread_state::leaves_uninitialized>;

// Many numbers of one random stream, several at a time: a model can have hundreds of millions of initial weights.

/// Writes the results of successive calls of RandomStream(seed, stream).uniform_double(), bit for bit.
void draw_uniform(uint64_t seed, uint64_t stream, std::span<double> values);

/// Writes the results of successive calls of RandomStream(seed, stream).normal(), bit for bit on every instruction set.
void draw_normal(uint64_t seed, uint64_t stream, std::span<double> values);

// Initial weights of a first convolution, computed from images instead of drawn. One thread at a
// time.

/// Filters that whiten the patches of `images` (PCA whitening; Coates and Ng, "Learning feature
/// representations with k-means", 2012, section 2, as first layer of a network by Page, "How to train your
/// ResNet", 2019, part 8). With l_k the k-th largest eigenvalue of the patches' second moment E[p p^T] and
/// e_k its eigenvector, channels 2k and 2k+1 of the output are
///   e_k / sqrt(l_k + epsilon)  and its negative,
/// so that a ReLU after them loses no information. weight: f32 [O,C,KH,KW] with O even and at most 2 * C * KH * KW,
/// written in place. images: f32 [N,H,W,C], preprocessed as for the network; a few hundred suffice. A pure function
/// of its arguments. Throws kMisuse if the shapes don't fit.
void fill_whitening(Tensor& weight, const Tensor& images, double epsilon = 5e-4);

}  // namespace dlpipe::engine
