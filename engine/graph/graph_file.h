// Graphs in files, FORMAT.md: a safetensors file of the weights, the graph as JSON in its metadata.
//
// Reading takes any bytes: what a file says is checked before memory is asked for, and read_graph answers only
// graphs that check() passes. Errors are values: kCorrupt, kUnsupported, those of reading.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// Writes aside and renames. What the metadata has as `graph` or `checksum` is left out: these are the file's own.
Status write_graph(const std::string& path, const Graph& graph);
Result<Graph> read_graph(const std::string& path);
/// Whether `path` is a safetensors file with a graph in it; false where it can't be read.
bool is_graph_file(const std::string& path);

/// Under which name each constant stands in a file: its own, numbered where several have one. "" for other values.
std::vector<std::string> constant_names(const Graph& graph);
/// The JSON of FORMAT.md. Of constants it has the names alone (constant_names); their elements are the file's tensors.
std::string graph_json(const Graph& graph);
/// What a file's JSON says, its constants taken from `constants` by name. `file` is named in errors.
Result<Graph> parse_graph(std::string_view json, const std::map<std::string, Tensor>& constants,
                          const std::string& file);

}  // namespace dlpipe::engine::graph
