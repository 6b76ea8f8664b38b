// Activation checkpointing: a module keeps only its input in the graph and runs its forward again in
// backward (Chen et al., "Training deep nets with sublinear memory cost", 2016). Gradients have the same
// bits: dropout draws the same numbers again, and batch norms count a batch once.
#pragma once

#include "dlpipe/tensor.h"

namespace dlpipe::engine {

class Module;

/// module.forward(x) with activations that are recomputed in backward. The module must outlive the graph.
Tensor forward_recomputed(Module& module, const Tensor& x);

/// True while the thread recomputes a forward, and in the backward of that. Code that counts calls must ignore this one; hooks
/// of parameters are called again with the gradients of the outer backward.
bool is_recomputing();

}  // namespace dlpipe::engine
