// The backward graph: nodes made by ops in forward, walked without recursion by dependency count.
//
// A Node is owned by the tensors that it made (shared) and by the nodes after it. One thread builds and walks
// a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/tensor.h"

namespace dlpipe::engine {

/// Where a gradient goes: input `input` of `node` is the gradient of that node's output number `input`.
struct Edge {
  std::shared_ptr<Node> node;  // null: nobody wants it
  int output = 0;
};

class Node {
 public:
  Node();
  /// Lets go of the nodes behind it without recursion.
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual std::string name() const = 0;
  /// Gradients of the outputs in (undefined = zero), gradients of the inputs out, one an edge (undefined =
  /// none).
  virtual std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) = 0;
  /// Frees what backward needs; a later backward is an error naming this node.
  virtual void release() = 0;
  /// True after release().
  virtual bool released() const = 0;

  const uint64_t sequence;  // order of creation within the thread: backward walks from the latest
  std::vector<Edge> edges;  // one an input of the op
  int outputs = 1;
  /// Specs of the outputs, so that a gradient takes its tensor's layout before it is accumulated.
  std::vector<TensorSpec> output_specs;
  std::vector<std::vector<Tensor::Hook>> hooks;  // an output
};

/// A tensor kept for backward, with the version it had: damage in place between is an error naming the op.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor);
  /// The tensor, or Error "[op] a tensor saved for backward was changed in place (version 3, saved at 2);
  /// clone it".
  Tensor unpack(const std::string& op) const;
  bool defined() const { return tensor_.defined(); }
  void reset() { tensor_ = Tensor(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
};

/// A differentiable function of a program's own, without an op record:
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
