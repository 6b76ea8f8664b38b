// The names by which a graph's outputs are asked for.
//
// A graph's outputs are values, and a value has one name: what stands among the inputs, what is constant and what is several
// outputs at once can't have a name for each of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// In the order of the outputs.
std::vector<std::string> output_names(const Graph& graph);

/// Gives output i the name `names[i]`. Inputs and constants that are outputs keep their own; of several outputs that are one
/// value the first counts. Another value that has one of these names gets a new one.
void name_outputs(Graph& graph, std::span<const std::string> names);

}  // namespace dlpipe::engine::graph
