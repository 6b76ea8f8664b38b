// What `dlpipe info FILE` says of a compiled model.
#pragma once

#include <string>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::cli {

std::string graph_summary(const std::string& path, const engine::graph::Graph& graph);
formats::Json graph_summary_json(const std::string& path, const engine::graph::Graph& graph);

}  // namespace dlpipe::cli
