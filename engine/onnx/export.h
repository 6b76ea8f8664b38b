// A graph as an ONNX model, opset 17.
#pragma once

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/onnx/onnx_file.h"

namespace dlpipe::engine::onnx {

/// Inputs and outputs have the graph's names, shapes and order of axes (images [N,H,W,C]); the batch is the dimension
/// 'N'. Weights keep their names, the graph's metadata become the model's. kUnsupported names an op that has no
/// counterpart: losses, dropout, a batch norm in training.
Model export_graph(const graph::Graph& graph);

}  // namespace dlpipe::engine::onnx
