#include "dlpipe/engine/autograd/function.h"

#include <algorithm>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_observer.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

// A user's Function in the graph.
class FunctionNode final : public Node {
 public:
  explicit FunctionNode(std::shared_ptr<Function> function) : function_(std::move(function)) {}
  std::string name() const override { return function_->name(); }
  std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) override {
    const auto given =
        std::ranges::find_if(grad_outputs, &Tensor::defined);  // one is: else nobody calls this
    Device& device = given != grad_outputs.end() ? given->device() : cpu_device();
    for (size_t i = 0; i < grad_outputs.size(); ++i) {
      // A user's backward sees plain gradients, and zeros instead of "none".
      grad_outputs[i] = grad_outputs[i].defined()
                            ? plain(grad_outputs[i])
                            : Tensor::full(output_specs[i].shape, 0, output_specs[i].dtype, device);
    }
    std::vector<Tensor> grads = function_->backward(grad_outputs);
    if (grads.size() > edges.size()) {
      refuse(name(), "backward answered ", grads.size(), " gradients for ", edges.size(),
             " inputs; answer one per input, undefined where there is none");
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
  refuse_recording(concat(function->name(), " has code of its own between its kernels"));
  std::vector<Tensor> outputs;
  {
    const NoGrad no_grad;
    outputs = function->forward(inputs);
  }
  bool wanted = false;
  for (const Tensor& input : inputs) wanted |= input.defined() && input.requires_grad();
  if (!wanted || !grad_enabled()) return outputs;
  // An input handed through unchanged keeps its own history; the output gets a handle of its own.
  for (Tensor& output : outputs) output = output.detach();
  auto node = std::make_shared<FunctionNode>(std::move(function));
  for (const Tensor& input : inputs) node->edges.push_back(gradient_edge(input));
  record_history(node, outputs);
  return outputs;
}

}  // namespace dlpipe::engine
