// Samples of what only large or low tensors take another way for, over the simulated grid and on a device.
#pragma once

#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/layer_norm.h"

namespace dlpipe::engine {

/// Rows of low numbers that products get aligned copies of (kernels/products.cu).
inline std::vector<OpSample> linear_of_long_rows() {
  // Small numbers, as the op's tolerance is for shorter sums.
  return {{"many long rows that begin anywhere", {{{1030, 2}}, {{1027, 2}}}, LinearAttrs{}, -0.25, 0.25},
          {"the same and a bias", {{{1030, 2}}, {{1027, 2}}, {{1027}}}, LinearAttrs{}, -0.25, 0.25}};
}

/// Rows of which a block of the gradient has several, the last fewer, and rows of the widest kernel (kernels/layer_norm.cu).
/// `like_x`: inputs of x's shape.
inline std::vector<OpSample> many_and_wide_rows(size_t like_x) {
  const auto sample = [&](const char* name, const Shape& x) {
    // Small numbers, as the ops' tolerances are for sums over 900 rows.
    OpSample out{name, std::vector<TensorSpec>(like_x, {x}), LayerNormAttrs{}, -0.25, 0.25};
    out.inputs.insert(out.inputs.end(), 2, {{x[-1]}});
    return out;
  };
  return {sample("several rows to a block", {4100, 24}), sample("wide rows", {9, 2056})};
}
inline std::vector<OpSample> layer_norm_of_many_rows() {
  return many_and_wide_rows(1);
}
inline std::vector<OpSample> add_layer_norm_of_many_rows() {
  return many_and_wide_rows(2);
}

/// Convolutions of few channels, which a library gets folded where they are low (kernels/conv2d.cu).
inline std::vector<OpSample> conv2d_of_few_channels() {
  return {{"in twos, nothing around", {{{2, 6, 7, 4}}, {{5, 4, 2, 2}}}, Conv2dAttrs{.stride = {2, 2}}},
          {"in twos, sides and padding that differ",
           {{{2, 7, 6, 3}}, {{4, 3, 3, 4}}, {{4}}},
           Conv2dAttrs{.stride = {2, 2}, .padding = {1, 2}}},
          {"in twos, one channel",
           {{{3, 8, 8, 1}}, {{2, 1, 5, 3}}},
           Conv2dAttrs{.stride = {2, 2}, .padding = {2, 1}}},
          {"in twos past the images",
           {{{1, 3, 3, 2}}, {{2, 2, 4, 4}}},
           Conv2dAttrs{.stride = {2, 2}, .padding = {3, 3}}},
          {"in twos, of too many channels", {{{2, 6, 6, 5}}, {{3, 5, 3, 3}}}, Conv2dAttrs{.stride = {2, 2}}},
          {"in twos, pixels alone", {{{2, 6, 6, 3}}, {{3, 3, 1, 1}}}, Conv2dAttrs{.stride = {2, 2}}}};
}

}  // namespace dlpipe::engine
