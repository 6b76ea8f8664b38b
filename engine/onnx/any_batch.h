// Converts a model that was exported for one batch size to any batch size. By default torch.onnx.export fixes the batch to that
// of its sample input.
#pragma once

#include <optional>

#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"

namespace dlpipe::engine::onnx {

/// The model with a variable batch, if all inputs of `fixed` (the result of import_model) are floats with the same batch size
/// and its outputs grow with it. nullopt if not, or if its nodes contain sizes. Check the result with answer_alike().
std::optional<graph::Graph> with_any_batch(const Model& model, const graph::Graph& fixed);

/// Whether `any` returns the same for each sample as `fixed`. Runs both on random numbers, in batches and sample by sample.
/// False if samples of a batch affect each other's results, or if results are zeros or not finite, which proves nothing. Costs
/// two runs of the fixed batch.
bool answer_alike(const graph::Graph& fixed, const graph::Graph& any);

}  // namespace dlpipe::engine::onnx
