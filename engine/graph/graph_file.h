// The parts of a graph's file (FORMAT.md): its JSON and the names of its constants. Reading and writing a file: dlpipe/graph.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/graph.h"

namespace dlpipe::engine::graph {

/// The name of each constant in a file: its own, with a number if several have the same one. "" for other values.
std::vector<std::string> constant_names(const Graph& graph);
/// The JSON of FORMAT.md. It only has the names of constants (constant_names); their elements are the file's tensors.
std::string graph_json(const Graph& graph);
/// The graph of a file's JSON, with the constants from `constants` by name. `file` is for errors.
Result<Graph> parse_graph(std::string_view json, const std::map<std::string, Tensor>& constants,
                          const std::string& file);

}  // namespace dlpipe::engine::graph
