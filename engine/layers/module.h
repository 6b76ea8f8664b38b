// Modules: named parameters and buffers in a tree, as PyTorch names them ("layer1.0.conv1.weight").
//
// A Module owns its children (shared) and its tensors. One thread at a time. Parameters are f32 leaves that
// require gradients; buffers (running_mean, ...) don't. Names, shapes and order in state_dict are PyTorch's:
// conv weights OIHW, linear [out,in].
//
// Weights are NaN until initialize(model, seed) (layers/init.h) or load_state_dict fills them: a forgotten
// initialisation shows in the first loss. The models of models/ initialise themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/layers/split.h"
#include "dlpipe/engine/ops/activation_kind.h"

namespace dlpipe::engine {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A parameter of which this rank has a part, and the whole's size along the cut axis.
struct NamedSplit {
  std::string name;
  Split split;
  int64_t size = 0;
};

/// A parameter that several stages of a pipeline have, and the ranks that do: its gradient is the sum of theirs.
struct Tie {
  NamedTensor parameter;
  Collective* ranks = nullptr;
};

class StageLine;

/// What it takes to compute the layer of this name and all below it, in any unit.
using LayerCost = std::function<double(const std::string& name)>;

/// A tensor of a file that hasn't been read.
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
  /// activate((*this)(x), activation), in one pass over memory where forward_fused has one.
  Tensor operator()(const Tensor& x, Activation activation);
  /// The same in one pass, to the same bits; undefined where this module has none or somebody wants what lies
  /// between: a forward hook of this module, or recomputation of it alone.
  Tensor forward_fused(const Tensor& x, Activation activation);
  /// What Sequential may have the module in front of this one do, instead of calling it: kNone where it is no
  /// such activation, or where somebody wants to see it called.
  Activation fusible_activation() const;
  /// "Conv2d", "BatchNorm2d", ... for summaries.
  virtual std::string kind() const = 0;
  /// Floating-point operations of one forward call (a multiply-add is two), children not counted.
  virtual double flops(const TensorSpec& x, const TensorSpec& y) const;
  /// The JSON of a captured graph (graph/FORMAT.md) where the module is one, and no code builds it; else "".
  virtual std::string graph_json() const { return {}; }
  /// Draws this module's own parameters (not the children's) anew, from Philox streams keyed by
  /// (seed, prefix + parameter name); `prefix` is "" or ends with a dot. Buffers go to their start values.
  virtual void reset_parameters(uint64_t seed, const std::string& prefix);

  /// All parameters, depth first, in registration order; full dotted names. A shared one comes once.
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  /// Parameters and buffers together in PyTorch's order. The tensors share storage with the module's.
  std::vector<NamedTensor> state_dict() const;
  /// Why load_state_dict would refuse tensors of these names and shapes, the first of them named: "2 missing:
  /// ..." Empty: it takes them.
  std::string state_differences(const std::vector<NamedShape>& state) const;
  /// Copies by name, converting floating dtypes. kMisuse lists missing, unexpected and differently shaped
  /// names unless `strict` is false, and then nothing has been copied; answers the names that were not
  /// loaded: of the module and missing or shaped differently in `state`, or of `state` and unknown here. A
  /// missing "num_batches_tracked" is no error: files from before PyTorch 0.4.1 lack it.
  std::vector<std::string> load_state_dict(const std::vector<NamedTensor>& state, bool strict = true);

  /// Parameters and floating buffers move to `device`, in place: optimizers are built afterwards. Counters
  /// (num_batches_tracked) stay on the host, which counts.
  void to(Device& device);
  /// Where the parameters are; the host if there are none.
  Device& device() const;

  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// requires_grad = false for parameters whose name matches a glob ("layer1.*"); answers how many. Frozen
  /// batch norms also keep their running statistics.
  int freeze(std::string_view pattern);
  void zero_grad();
  /// Modules whose names match a glob ("layer?.*") run again in backward instead of keeping their
  /// activations; answers how many. Of nested ones the outermost counts.
  int checkpoint_activations(std::string_view pattern);

  /// Keeps this rank's part of the weights of every layer below that can be cut; all `ranks` do so alike, and together they
  /// compute what the whole module does. Inputs and outputs stay whole. For a module on the host that has its weights, before
  /// anybody takes its parameters; once. Layers that can't be cut stay whole on every rank; kMisuse where one can be cut,
  /// but not among so many ranks.
  virtual void split_over(Collective& ranks);
  /// The parameters that were cut, by full name.
  std::vector<NamedSplit> splits() const;

  /// Keeps the layers, and the parameters, of one stage of a pipeline, whose ranks are `stages` in order (staged_module.h). They are
  /// cut so that the dearest stage is as cheap as can be. Before split_over(), else as that. kMisuse for a module whose layers
  /// aren't one behind the other, or are too few.
  virtual void keep_stage(Collective& stages, const LayerCost& cost);
  /// What a stage exchanges with its neighbours; null: this is the whole.
  virtual StageLine* stage_line() { return nullptr; }
  virtual std::vector<Tie> ties() const { return {}; }

  struct Named {
    std::string name;  // "" for the root
    Module* module;
  };
  /// This module and all below it, depth first, in registration order.
  std::vector<Named> modules();
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }

  /// Called after every forward call of this module, with its input and output: summaries, and the search for
  /// the first layer whose output isn't finite.
  using ForwardHook = std::function<void(Module& module, const Tensor& x, const Tensor& y)>;
  /// Answers a number to remove it by (hook_scope.h does). They are called in the order that they came.
  int64_t register_forward_hook(ForwardHook hook) {
    forward_hooks_.emplace(++last_hook_, std::move(hook));
    return last_hook_;
  }
  void remove_forward_hook(int64_t number) { forward_hooks_.erase(number); }
  bool has_forward_hooks() const { return !forward_hooks_.empty(); }

 protected:
  Tensor add_parameter(std::string name, Tensor tensor);
  Tensor add_buffer(std::string name, Tensor tensor);
  /// Lets go of all children and own parameters but those of these names.
  void keep_only(const std::unordered_set<std::string>& names);
  /// A parameter becomes this rank's part of it; undefined: there is none.
  void split_parameter(Tensor& parameter, const Split& split, const Collective& ranks);
  template <class M>
  std::shared_ptr<M> add_module(std::string name, std::shared_ptr<M> module) {
    children_.emplace_back(std::move(name), module);
    return module;
  }
  /// For modules with a second way in besides forward(): runs the hooks on what it made.
  Tensor run_forward_hooks(const Tensor& x, Tensor y);
  /// activate(forward(x), activation) in one pass over memory; undefined: there is none.
  virtual Tensor forward_activated(const Tensor& x, Activation activation);
  /// Which one this module is, as far as products know it.
  virtual Activation activation() const { return Activation::kNone; }
  /// Whether somebody wants it called by itself: a forward hook, or recomputation.
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

}  // namespace dlpipe::engine
