// Finding where numbers stopped being finite, so that the message can name a layer. Only called when
// something is wrong, except all_finite, which costs one pass over the memory.
#pragma once

#include <span>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

/// True when no element is NaN or infinite. f32, f64, bf16 and f16; other dtypes are finite.
bool all_finite(const engine::Tensor& tensor);
bool all_finite(std::span<const float> values);

/// "fc.weight: the weights", of the first in forward order, or "the model's input"; "" when all is finite.
std::string first_nonfinite_input(engine::Module& model, const engine::Tensor& pixels);
/// "layer1.0.conv1 (Conv2d): its output", likewise. Runs the model on `pixels` once more without recording a graph.
std::string first_nonfinite_output(engine::Module& model, const engine::Tensor& pixels);
/// "fc.weight: its gradient", of the first that backward reached (the last in forward order); "".
std::string first_nonfinite_gradient(std::span<const engine::NamedTensor> parameters);

}  // namespace dlpipe::run
