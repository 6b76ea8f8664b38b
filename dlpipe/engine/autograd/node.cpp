#include "dlpipe/engine/autograd/node.h"

#include "dlpipe/base/text.h"
#include "dlpipe/engine/autograd/backward.h"
#include "dlpipe/engine/tensor_impl.h"

namespace dlpipe::engine {

namespace {
// Nodes waiting to be let go while an outer bury() of this thread works.
thread_local std::vector<std::shared_ptr<Node>>* t_graveyard = nullptr;
thread_local uint64_t t_next_sequence = 0;
}  // namespace

Node::Node() : sequence(t_next_sequence++) {}

Node::~Node() {
  for (Edge& edge : edges) {
    if (edge.node != nullptr) bury(std::move(edge.node));
  }
}

void bury(std::shared_ptr<Node> node) noexcept {
  // A node's destructor buries what it points to: the outermost call empties the list in a loop, so that a
  // chain of any length takes constant stack.
  if (node.use_count() > 1) return;
  if (t_graveyard != nullptr) {
    t_graveyard->push_back(std::move(node));
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
    throw Error(Status(ErrorCode::kMisuse,
                       concat("[", op, "] a tensor saved for backward was changed in place (version ",
                              tensor_.version(), ", saved at ", version_, "); clone it before changing it")));
  }
  return tensor_;
}

}  // namespace dlpipe::engine
