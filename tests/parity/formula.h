// The numbers that make_golden.py draws, bit for bit: weights, images, labels and gradients of the parity
// tests, so that golden files hold only results. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dlpipe/module.h"

namespace dlpipe::engine::parity {

/// 32-bit words keyed by a name.
std::vector<uint32_t> words(std::string_view name, int64_t count);
/// Multiples of 2^-23 in [-1, 1).
std::vector<double> noise(std::string_view name, int64_t count);
/// The same as an f32 tensor.
Tensor noise_tensor(std::string_view name, const Shape& shape);
/// words % classes, i64 [count].
Tensor labels(std::string_view name, int64_t count, int64_t classes);
/// Indices of the four elements of a tensor that golden files keep.
std::vector<int64_t> sampled_elements(std::string_view name, int64_t count);
/// Fills every parameter by its name and rank; buffers stay.
void set_weights(Module& model);

}  // namespace dlpipe::engine::parity
