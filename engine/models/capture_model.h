// A model's forward pass as a graph.
#pragma once

#include <string>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

/// The forward pass of `model` in eval mode (the mode is put back), of the input 'x' as `arguments` say (images
/// [N,H,W,C], or tokens [N,T] where a length is set) to the output. Constants are the model's own tensors, under
/// their names. Error where the model can't be captured (graph/capture.h).
graph::Graph capture_model(Module& model, const ModelArguments& arguments, const std::string& name);

}  // namespace dlpipe::engine
