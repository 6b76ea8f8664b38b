// The steps of an elementwise_chain as a text and back: how graphs print them and files hold them (engine/graph/FORMAT.md).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/elementwise_chain.h"

namespace dlpipe::engine {

/// "scale(x0) factor=2 offset=0; mul(x0,y0)"
std::string steps_text(std::span<const ChainStep> steps);
/// kCorrupt where it is no such text, or an op isn't elementwise or takes other attributes. Whether operands are there is
/// for the shape rule.
std::vector<ChainStep> steps_from(const AttrValue& text);

}  // namespace dlpipe::engine
