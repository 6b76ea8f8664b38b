// A differentiable function of a program's own, without an op record. One object is one call, used by one
// thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/node.h"

namespace dlpipe::engine {

///   struct Square : Function {
///     std::string name() const override { return "square"; }
///     std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
///       save(inputs[0]);
///       return {mul(inputs[0], inputs[0])};
///     }
///     std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) override {
///       return {mul(grad_outputs[0], scale(saved(0), 2))};
///     }
///   };
///   Tensor y = run_function(std::make_shared<Square>(), {x})[0];
class Function {
 public:
  virtual ~Function() = default;
  virtual std::string name() const = 0;
  /// Runs without recording. Tensors for backward go through save().
  virtual std::vector<Tensor> forward(std::span<const Tensor> inputs) = 0;
  virtual std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) = 0;

 protected:
  void save(const Tensor& tensor) { saved_.emplace_back(tensor); }
  Tensor saved(size_t i) const { return saved_.at(i).unpack(name()); }

 private:
  friend class FunctionNode;
  std::vector<SavedTensor> saved_;
};
std::vector<Tensor> run_function(std::shared_ptr<Function> function, std::vector<Tensor> inputs);

}  // namespace dlpipe::engine
