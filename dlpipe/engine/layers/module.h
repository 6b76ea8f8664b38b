// Modules: named parameters and buffers in a tree, as PyTorch names them ("layer1.0.conv1.weight").
//
// A Module owns its children (shared) and its tensors. One thread at a time. Parameters are f32 leaves that
// require gradients; buffers (running_mean, ...) don't. Names, shapes and order in state_dict are PyTorch's:
// conv weights OIHW, linear [out,in].
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/engine/tensor.h"

namespace dlpipe::engine {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class Module {
 public:
  virtual ~Module() = default;
  virtual Tensor forward(const Tensor& x) = 0;
  Tensor operator()(const Tensor& x);
  /// "Conv2d", "BatchNorm2d", ... for summaries.
  virtual std::string kind() const = 0;

  /// All parameters, depth first, in registration order; full dotted names.
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  /// Parameters and buffers together in PyTorch's order.
  std::vector<NamedTensor> state_dict() const;
  /// Copies by name. kMisuse lists missing, unexpected and differently shaped names unless `strict` is false;
  /// answers the names that were not loaded.
  std::vector<std::string> load_state_dict(const std::vector<NamedTensor>& state, bool strict = true);

  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// requires_grad = false for parameters whose name matches a glob ("layer1.*"); answers how many. Frozen
  /// batch norms also keep their running statistics.
  int freeze(std::string_view pattern);
  void zero_grad();

  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }

 protected:
  Tensor add_parameter(std::string name, Tensor tensor);
  Tensor add_buffer(std::string name, Tensor tensor);
  template <class M>
  std::shared_ptr<M> add_module(std::string name, std::shared_ptr<M> module) {
    children_.emplace_back(std::move(name), module);
    return module;
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

}  // namespace dlpipe::engine
