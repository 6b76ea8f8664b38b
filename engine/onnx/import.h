// An ONNX model as a graph.
//
// Each node calls dlpipe's ops (import_run.h), and what is called is captured (graph/capture.h): there is no second way
// to build a graph. What is known before any input is (shapes, sizes and the integers made of them) is computed
// meanwhile and leaves no node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/onnx/onnx_file.h"

namespace dlpipe::engine::onnx {

inline constexpr int64_t kAnyBatch = -1;

struct ImportOptions {
  /// By input: sizes of its axes, for dimensions that the file leaves open; the first one may be kAnyBatch, whatever the
  /// file says of it.
  std::map<std::string, std::vector<int64_t>> shapes = {};
};

/// Inputs and outputs keep the model's names (as far as graph/output_names.h says), shapes and order of axes ([N,C,H,W]). A first
/// dimension without a number is the batch; other dimensions need one, here or in `options`. Floating weights become f32.
/// kUnsupported names the node and the op that dlpipe lacks or takes otherwise, kCorrupt what is wrong with the model.
graph::Graph import_model(const Model& model, const ImportOptions& options = {});

/// The model's inputs but those that initializers give: import_model's, in order.
std::vector<ValueInfo> open_inputs(const Model& model);

/// The ops of ONNX that import_model knows, in order.
std::vector<std::string> imported_ops();

}  // namespace dlpipe::engine::onnx
