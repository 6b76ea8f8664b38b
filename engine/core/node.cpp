#include "engine/core/node.h"

#include <new>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/tensor.h"
#include "engine/core/kernel_call.h"
#include "engine/core/observers.h"
#include "engine/core/tensor_impl.h"

namespace dlpipe::engine {

namespace {
// Nodes waiting to be released while an outer bury() of this thread runs.
thread_local std::vector<std::shared_ptr<Node>>* t_graveyard = nullptr;
}  // namespace

uint64_t& thread_state::next_node() {
  thread_local uint64_t t_next = 0;
  return t_next;
}

Node::Node() : sequence(thread_state::next_node()++) {}

Node::~Node() {
  for (Edge& edge : edges) {
    if (edge.node != nullptr) bury(std::move(edge.node));
  }
}

void record_history(const std::shared_ptr<Node>& node, std::span<Tensor> outputs) {
  node->outputs = static_cast<int>(outputs.size());
  node->output_specs.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorImpl& impl = *outputs[i].impl();
    node->output_specs.push_back(impl.spec);
    if (!is_floating(impl.spec.dtype)) continue;
    impl.node = node;
    impl.node_output = static_cast<int>(i);
  }
}

void bury(std::shared_ptr<Node> node) noexcept {
  // A node's destructor buries the nodes that it points to. The outermost call empties the list in a loop, so that
  // a chain of any length takes constant stack.
  if (node.use_count() > 1) return;
  if (t_graveyard != nullptr) {
    try {
      t_graveyard->push_back(std::move(node));
    } catch (const std::bad_alloc&) {  // the node is unchanged, and is released immediately, by recursion
      node.reset();
    }
    return;
  }
  std::vector<std::shared_ptr<Node>> graveyard;
  t_graveyard = &graveyard;
  node.reset();
  while (!graveyard.empty()) {
    const std::shared_ptr<Node> next = std::move(graveyard.back());
    graveyard.pop_back();
  }
  t_graveyard = nullptr;
}

SavedTensor::SavedTensor(const Tensor& tensor) {
  if (!tensor.defined()) return;
  // Keeps no history: a node that saved its own output with its history would keep itself alive.
  tensor_ = tensor.detach();
  version_ = tensor.version();
}

Tensor SavedTensor::unpack(const std::string& op) const {
  if (tensor_.defined() && tensor_.version() != version_) {
    refuse(op, "a tensor saved for backward was changed in place (version ", tensor_.version(), ", saved at ",
           version_, "); clone it before changing it");
  }
  return tensor_;
}

// Gradients end at leaves, which accumulate them.

Tensor conform_gradient(const Tensor& grad, const TensorSpec& spec, const std::string& where) {
  if (!(grad.shape() == spec.shape)) {
    refuse(where, "got a gradient of shape ", grad.shape().to_string(), " for a tensor of shape ",
           spec.shape.to_string());
  }
  const UseBackend fast(Backend::kCpu);  // the reference has no layouts
  Tensor result = grad;
  if (result.layout() != spec.layout) result = reorder(result, Layout::kPlain);
  if (result.dtype() != spec.dtype) result = cast(result, spec.dtype);
  if (result.layout() != spec.layout) result = reorder(result, spec.layout);
  if (result.layout() == Layout::kPlain && !result.is_contiguous()) result = result.contiguous_copy();
  return result;
}

void accumulate_gradient(const Tensor& to, Tensor grad, bool is_own) {
  TensorImpl& leaf = *to.impl();
  const UseKernelObserver nobody(nullptr);
  for (const Tensor::Hook& hook : leaf.hooks) {
    if (Tensor replaced = hook(grad); replaced.defined()) {
      grad = conform_gradient(replaced, {to.shape(), to.dtype(), Layout::kPlain}, "hook");
      is_own = false;
    }
  }
  // The leaf needs its own memory: the gradient may be shared (with a hook or a view).
  if (leaf.grad.defined()) {
    leaf.grad = add(leaf.grad, grad);
  } else {
    leaf.grad = is_own || TensorImpl::is_exclusive(grad) ? std::move(grad) : grad.clone();
  }
}

namespace {

// The end of a path: adds incoming gradients to its leaf's gradient.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
    output_specs = {{leaf.shape(), leaf.dtype(), Layout::kPlain}};
  }
  std::string name() const override { return "gradient"; }
  std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) override {
    Tensor grad = std::move(grad_outputs[0]);
    grad_outputs.clear();
    accumulate_gradient(leaf_, std::move(grad), false);
    return {};
  }
  void release() override {}
  bool released() const override { return false; }

 private:
  Tensor leaf_;
};

}  // namespace

Edge gradient_edge(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  TensorImpl& impl = *tensor.impl();
  if (impl.node != nullptr) return {impl.node, impl.node_output};
  if (!impl.requires_grad) return {};
  std::shared_ptr<Node> accumulator = impl.accumulator.lock();
  if (accumulator == nullptr) {
    accumulator = std::make_shared<AccumulateGrad>(tensor);
    impl.accumulator = accumulator;
  }
  return {std::move(accumulator), 0};
}

void OpNode::save(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  input_specs_ = specs_of(inputs);
  inputs_.resize(inputs.size());
  outputs_.resize(outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (record_.save_inputs & bit(static_cast<int>(i))) inputs_[i] = SavedTensor(inputs[i]);
  }
  const uint32_t saved =
      record_.reads_outputs == nullptr ? record_.save_outputs : record_.reads_outputs(attrs_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (saved & bit(static_cast<int>(i))) outputs_[i] = SavedTensor(outputs[i]);
  }
  device_ = &outputs[0].device();
}

std::vector<Tensor> OpNode::backward(std::vector<Tensor> grad_outputs) {
  std::vector<Tensor> grad_inputs(edges.size());
  std::vector<Tensor> views(edges.size());
  bool needs_kernel = false;
  for (size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].node == nullptr) continue;
    if (record_.view_gradient != nullptr)
      views[i] = record_.view_gradient(i, grad_outputs[0], input_specs_[i].shape, attrs_);
    if (views[i].defined()) continue;
    grad_inputs[i] = Tensor::empty(input_specs_[i], *device_);
    needs_kernel = true;
  }
  if (!needs_kernel) return views;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (const SavedTensor& saved : inputs_) inputs.push_back(saved.unpack(record_.name));
  for (const SavedTensor& saved : outputs_) outputs.push_back(saved.unpack(record_.name));
  run_backward(record_, kernels_, {inputs, outputs, grad_outputs, grad_inputs, attrs_, input_specs_});
  for (size_t i = 0; i < edges.size(); ++i) {
    if (views[i].defined()) grad_inputs[i] = std::move(views[i]);
  }
  return grad_inputs;
}

void OpNode::release() {
  inputs_.clear();
  outputs_.clear();
  released_ = true;
}

}  // namespace dlpipe::engine
