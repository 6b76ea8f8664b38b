// What passes and exporters ask of nodes: which op, which attribute.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

bool is_op(const Node& node, std::string_view name);
/// The built-in op's row; kInternal where there is none.
const OpRow& row_of(std::string_view name);
/// kInternal where the op has no such attribute.
AttrValue attribute(const Node& node, std::string_view name);
void set_attribute(Node& node, std::string_view name, AttrValue value);
/// Another tensor of the same module: ("conv1.weight", "bias") -> "conv1.bias".
std::string beside(std::string_view weight, std::string_view name);

}  // namespace dlpipe::engine::graph
