// A model that was exported for batches of one size, for batches of any. torch.onnx.export fixes the batch at that of its sample
// input unless it is told otherwise.
#pragma once

#include <optional>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/onnx/import.h"

namespace dlpipe::engine::onnx {

/// The model with a batch that may vary, where it answers each sample as `fixed` (what import_model makes of it) does: both
/// are run, on numbers drawn for it. Nothing where sizes stand in its nodes, where samples of a batch change each other's
/// answers, and where inputs are no floats or have no common batch.
std::optional<graph::Graph> with_any_batch(const Model& model, const graph::Graph& fixed);

}  // namespace dlpipe::engine::onnx
