// The walk of the backward graph, and what the rest of engine needs of it. Internal to engine.
#pragma once

#include <memory>

#include "dlpipe/engine/autograd/node.h"
#include "dlpipe/engine/tensor.h"

namespace dlpipe::engine {

/// Tensor::backward.
void run_backward(const Tensor& root, const Tensor& seed, bool retain_graph);

/// Where the gradient of `tensor` goes: the node that made it, the accumulator of a leaf that requires
/// gradients, or nowhere.
Edge gradient_edge(const Tensor& tensor);

/// Makes `node` the history of `outputs`, whose specs it notes.
void record_history(const std::shared_ptr<Node>& node, std::span<Tensor> outputs);

/// `grad` in the shape's dtype and layout of `spec`, contiguous. Error names `where` when the shape differs.
Tensor conform(const Tensor& grad, const TensorSpec& spec, const std::string& where);

/// Lets go of a node without recursion, however long the chain behind it.
void bury(std::shared_ptr<Node> node) noexcept;

}  // namespace dlpipe::engine
