// Activation checkpointing: a module that keeps only its input in the graph and runs its forward again when
// backward comes (Chen et al., "Training deep nets with sublinear memory cost", 2016). Gradients are the same
// bits: dropout draws what it drew, and batch norms count a batch once.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

class Module;

/// module.forward(x), whose activations are made again in backward. The module must outlive the graph.
Tensor forward_recomputed(Module& module, const Tensor& x);

/// True on a thread whose forward runs for the second time, and in the backward of that: what counts calls leaves this
/// one out, and hooks of parameters see their gradients again when the outer backward has them.
bool is_recomputing();

}  // namespace dlpipe::engine
