#include "dlpipe/engine/core/node.h"

#include <new>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/tensor_impl.h"

namespace dlpipe::engine {

namespace {
// Nodes waiting to be let go while an outer bury() of this thread works.
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
  // A node's destructor buries what it points to: the outermost call empties the list in a loop, so that a
  // chain of any length takes constant stack.
  if (node.use_count() > 1) return;
  if (t_graveyard != nullptr) {
    try {
      t_graveyard->push_back(std::move(node));
    } catch (const std::bad_alloc&) {  // the node is where it was, and goes at once, by recursion
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
  // Without history: a node that kept its own output with it would keep itself alive.
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

}  // namespace dlpipe::engine
