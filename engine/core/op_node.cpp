#include "dlpipe/engine/core/op_node.h"

#include "dlpipe/engine/core/kernel_call.h"

namespace dlpipe::engine {

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
