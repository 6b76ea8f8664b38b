// A model that was exported for batches of one size, for batches of any. torch.onnx.export fixes the batch at that of its sample
// input unless it is told otherwise.
#pragma once

#include <optional>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/onnx/import.h"

namespace dlpipe::engine::onnx {

/// The model with a batch that may vary, where `fixed` (what import_model makes of it) has one size for all inputs, floats, and
/// its outputs grow with it. Nothing where that is not so, or sizes stand in its nodes. answer_alike says whether it will do.
std::optional<graph::Graph> with_any_batch(const Model& model, const graph::Graph& fixed);

/// Whether `any` answers each sample as `fixed` does: both are run, on numbers drawn for it, in batches and one by one. False where
/// samples of a batch change each other's answers, and where the answers are zeros or not finite, which says nothing. Takes as
/// long as twice the fixed batch.
bool answer_alike(const graph::Graph& fixed, const graph::Graph& any);

}  // namespace dlpipe::engine::onnx
