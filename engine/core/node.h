// The history of tensors: nodes that ops make in forward (op_node.h) and autograd/ walks in backward.
//
// A Node is owned by the tensors that it made (shared) and by the nodes after it. One thread builds and walks
// a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// Where a gradient goes: input `input` of `node` is the gradient of that node's output number `input`.
struct Edge {
  std::shared_ptr<Node> node;  // null: nobody wants it
  int output = 0;
};

namespace thread_state {
/// The number of the calling thread's next node. Graphs that share leaves and are built on threads of their own take the
/// same numbers where each begins with the same one.
uint64_t& next_node();
}  // namespace thread_state

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
  std::vector<Edge> edges;  // one per input of the op
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

/// Makes `node` the history of `outputs`, whose specs it notes.
void record_history(const std::shared_ptr<Node>& node, std::span<Tensor> outputs);

/// Where the gradient of `tensor` goes: the node that made it, the accumulator of a leaf that requires
/// gradients, or nowhere. Tensor::backward, which walks there, is autograd/backward.cpp's.
Edge gradient_edge(const Tensor& tensor);
/// `grad` in the shape, dtype and layout of `spec`, contiguous. Error names `where` when the shape differs.
Tensor conform_gradient(const Tensor& grad, const TensorSpec& spec, const std::string& where);

/// Adds `grad`, of the leaf's form, to the gradient of `leaf`, after its hooks. `is_own`: nobody else will use the memory
/// of `grad`, whatever handles there are.
void accumulate_gradient(const Tensor& leaf, Tensor grad, bool is_own);

/// Lets go of a node without recursion, however long the chain behind it.
void bury(std::shared_ptr<Node> node) noexcept;

}  // namespace dlpipe::engine
