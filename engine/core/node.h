// The history of tensors: ops create nodes in forward (OpNode), and autograd/ walks them in backward.
//
// A Node is owned by its output tensors (shared) and by the nodes after it. One thread builds and walks
// a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// Where a gradient goes: to `node`, as the gradient of that node's output number `output`.
struct Edge {
  std::shared_ptr<Node> node;  // null: the gradient isn't needed
  int output = 0;
};

namespace thread_state {
/// The number of the calling thread's next node. Threads that build graphs with shared leaves use the same numbers if each
/// begins with the same one.
uint64_t& next_node();
}  // namespace thread_state

class Node {
 public:
  Node();
  /// Releases the nodes that its edges point to, without recursion.
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual std::string name() const = 0;
  /// Computes the gradients of the inputs, one per edge (undefined = none), from those of the outputs (undefined =
  /// zero).
  virtual std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) = 0;
  /// Frees what backward needs; a later backward is an error that names this node.
  virtual void release() = 0;
  /// True after release().
  virtual bool released() const = 0;

  const uint64_t sequence;  // order of creation within the thread: backward walks from the latest
  std::vector<Edge> edges;  // one per input of the op
  int outputs = 1;
  /// Specs of the outputs, to convert a gradient to its tensor's layout before it is accumulated.
  std::vector<TensorSpec> output_specs;
  std::vector<std::vector<Tensor::Hook>> hooks;  // by output
};

/// Makes `node` the history of `outputs` and stores their specs in it.
void record_history(const std::shared_ptr<Node>& node, std::span<Tensor> outputs);

/// Where the gradient of `tensor` goes: to the node that made it, to the accumulator of a leaf that requires
/// gradients, or nowhere. Tensor::backward is in autograd/backward.cpp.
Edge gradient_edge(const Tensor& tensor);
/// Converts `grad` to the dtype and layout of `spec`, contiguous. If the shape differs, throws Error that names `where`.
Tensor conform_gradient(const Tensor& grad, const TensorSpec& spec, const std::string& where);

/// Adds `grad`, which has the leaf's spec, to the gradient of `leaf`, after calling its hooks. `is_own`: nothing else uses the
/// memory of `grad`, even if there are other handles.
void accumulate_gradient(const Tensor& leaf, Tensor grad, bool is_own);

/// Releases a node and the chain of nodes that it points to, of any length, without recursion.
void bury(std::shared_ptr<Node> node) noexcept;

// An op's node in the graph: its record, saved tensors, and the specs of its inputs as the kernel saw
// them. Internal to engine; apply.cpp creates them.

class OpNode final : public Node {
 public:
  OpNode(const OpRecord& record, const Kernels& kernels, Attrs attrs)
      : record_(record), kernels_(kernels), attrs_(std::move(attrs)) {}

  std::string name() const override { return record_.name; }
  /// Saves those tensors of the call, as its kernel saw them, that the record declares.
  void save(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) override;
  void release() override;
  bool released() const override { return released_; }

 private:
  const OpRecord& record_;
  const Kernels& kernels_;
  const Attrs attrs_;
  Device* device_ = nullptr;
  std::vector<TensorSpec> input_specs_;
  std::vector<SavedTensor> inputs_;
  std::vector<SavedTensor> outputs_;
  bool released_ = false;
};

}  // namespace dlpipe::engine
