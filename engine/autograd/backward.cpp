// Tensor::backward: walks the graph and accumulates the gradients of each node's outputs.
#include <queue>
#include <unordered_map>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/node.h"
#include "engine/core/tensor_impl.h"

namespace dlpipe::engine {

namespace {

struct Walk {
  int dependencies = 0;  // edges into the node whose gradient has not arrived yet
  std::vector<Tensor> grads;
};

class BackwardWalk {
 public:
  BackwardWalk(const std::shared_ptr<Node>& root, bool retain_graph) : retain_graph_(retain_graph) {
    count_dependencies(root);
  }

  void run(const std::shared_ptr<Node>& root, int output, Tensor seed) {
    deliver(root, output, std::move(seed));
    ready_.push(root.get());
    while (!ready_.empty()) {
      Node& node = *ready_.top();
      ready_.pop();
      visit(node);
    }
  }

 private:
  struct EarlierFirst {
    bool operator()(const Node* a, const Node* b) const { return a->sequence < b->sequence; }
  };

  void count_dependencies(const std::shared_ptr<Node>& root) {
    std::vector<Node*> open = {root.get()};
    walks_[root.get()];
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (const Edge& edge : node->edges) {
        if (edge.node == nullptr) continue;
        const auto [entry, is_new] = walks_.try_emplace(edge.node.get());
        ++entry->second.dependencies;
        if (is_new) open.push_back(edge.node.get());
      }
    }
  }

  // Adds an incoming gradient for one output of `node`, in the output's form.
  void deliver(const std::shared_ptr<Node>& node, int output, Tensor grad) {
    if (!grad.defined()) return;
    std::vector<Tensor>& grads = walks_[node.get()].grads;
    if (grads.empty()) grads.resize(node->outputs);
    grad = conform_gradient(grad, node->output_specs[output], node->name());
    grads[output] = grads[output].defined() ? add(grads[output], grad) : std::move(grad);
  }

  void visit(Node& node) {
    std::vector<Tensor> grads = std::move(walks_[&node].grads);
    std::vector<Tensor> grad_inputs;
    if (!grads.empty()) {
      run_hooks(node, grads);
      if (node.released()) {
        refuse("backward", "the graph of ", node.name(),
               " was freed by an earlier backward; pass retain_graph = true to that one");
      }
      grad_inputs = node.backward(std::move(grads));
      if (!retain_graph_) node.release();
    }
    grad_inputs.resize(node.edges.size());
    for (size_t i = 0; i < node.edges.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (edge.node == nullptr) continue;
      deliver(edge.node, edge.output, std::move(grad_inputs[i]));
      if (--walks_[edge.node.get()].dependencies == 0) ready_.push(edge.node.get());
    }
  }

  static void run_hooks(Node& node, std::vector<Tensor>& grads) {
    for (size_t output = 0; output < node.hooks.size(); ++output) {
      if (node.hooks[output].empty() || !grads[output].defined()) continue;
      TensorSpec spec = node.output_specs[output];
      spec.layout = Layout::kPlain;
      Tensor grad = conform_gradient(grads[output], spec, "hook");
      for (const Tensor::Hook& hook : node.hooks[output]) {
        if (Tensor replaced = hook(grad); replaced.defined()) grad = conform_gradient(replaced, spec, "hook");
      }
      grads[output] = conform_gradient(grad, node.output_specs[output], "hook");
    }
  }

  bool retain_graph_;
  std::unordered_map<Node*, Walk> walks_;
  // The latest node is visited first, so that its gradients are freed as soon as possible.
  std::priority_queue<Node*, std::vector<Node*>, EarlierFirst> ready_;
};

}  // namespace

void Tensor::backward(const Tensor& seed, bool retain_graph) const {
  const Edge edge = gradient_edge(*this);
  if (edge.node == nullptr) {
    refuse("backward", "this tensor has no history: none of its inputs requires a gradient");
  }
  if (!seed.defined() && elements() != 1) {
    refuse("backward", "of a tensor of shape ", shape().to_string(),
           " needs a seed gradient; pass one or reduce it to a scalar");
  }
  const NoGrad no_grad;
  const Tensor start = seed.defined() ? seed : Tensor::full(shape(), 1.0, dtype(), device());
  BackwardWalk(edge.node, retain_graph).run(edge.node, edge.output, start);
}

}  // namespace dlpipe::engine
