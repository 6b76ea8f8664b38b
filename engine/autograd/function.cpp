#include "dlpipe/op.h"

#include <algorithm>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "engine/core/node.h"

namespace dlpipe::engine {

// A user's Function in the graph.
class FunctionNode final : public Node {
 public:
  explicit FunctionNode(std::shared_ptr<Function> function) : function_(std::move(function)) {}
  std::string name() const override { return function_->name(); }
  std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) override {
    const auto given =
        std::ranges::find_if(grad_outputs, &Tensor::defined);  // backward is only called if there is one
    Device& device = given != grad_outputs.end() ? given->device() : cpu_device();
    for (size_t i = 0; i < grad_outputs.size(); ++i) {
      // A user's backward sees plain gradients, and zeros instead of "none".
      grad_outputs[i] = grad_outputs[i].defined()
                            ? plain(grad_outputs[i])
                            : Tensor::full(output_specs[i].shape, 0, output_specs[i].dtype, device);
    }
    std::vector<Tensor> grads = function_->backward(grad_outputs);
    if (grads.size() > edges.size()) {
      refuse(name(), "backward returned ", grads.size(), " gradients for ", edges.size(),
             " inputs; return one per input, undefined if there is none");
    }
    return grads;
  }
  void release() override {
    released_ = true;
    function_->saved_.clear();
  }
  bool released() const override { return released_; }

 private:
  std::shared_ptr<Function> function_;
  bool released_ = false;
};

std::vector<Tensor> run_function(std::shared_ptr<Function> function, std::vector<Tensor> inputs) {
  std::vector<Tensor> outputs;
  {
    const NoGrad no_grad;
    outputs = function->forward(inputs);
  }
  bool wanted = false;
  for (const Tensor& input : inputs) wanted |= input.defined() && input.requires_grad();
  if (!wanted || !grad_enabled()) return outputs;
  // An input that is returned unchanged keeps its own history; the output gets a new handle.
  for (Tensor& output : outputs) output = output.detach();
  auto node = std::make_shared<FunctionNode>(std::move(function));
  for (const Tensor& input : inputs) node->edges.push_back(gradient_edge(input));
  record_history(node, outputs);
  return outputs;
}

}  // namespace dlpipe::engine
