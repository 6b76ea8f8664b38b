// What `dlpipe info FILE` says of a compiled model or an ONNX file.
#pragma once

#include <string>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/onnx/onnx_file.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::cli {

/// `is_compiled`: the file runs as it is; else it is ONNX's.
std::string graph_summary(const std::string& path, const engine::graph::Graph& graph, bool is_compiled);
formats::Json graph_summary_json(const std::string& path, const engine::graph::Graph& graph,
                                 bool is_compiled);

/// Of an ONNX file that dlpipe doesn't take, by ONNX's own names.
std::string onnx_summary(const std::string& path, const engine::onnx::Model& model);

}  // namespace dlpipe::cli
