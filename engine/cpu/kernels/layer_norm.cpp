// Rows of layer_norm and add_layer_norm. Every tensor is f32 or bf16; rows are widened and narrowed one at
// a time in the first-level cache, so that each pass goes through memory once.
#include "engine/ops/layer_norm.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "dlpipe/op.h"
#include "engine/core/parallel.h"
#include "engine/cpu/loops/rows.h"

namespace dlpipe::engine {

namespace cpu {
namespace {

/// The first `count` lanes from memory; the others are 0. If `count` is known to be eight, it compiles to one load.
DLPIPE_INLINE inline F32x8 load_some(const float* from, int64_t count) {
  F32x8 lanes = {};
  std::memcpy(&lanes, from, static_cast<size_t>(count) * sizeof(float));
  return lanes;
}
/// The same number in the first `count` lanes.
DLPIPE_INLINE inline F32x8 some(float value, int64_t count) {
  const F32x8 lanes = all(value);
  return load_some(reinterpret_cast<const float*>(&lanes), count);
}
DLPIPE_INLINE inline void store_some(float* to, const F32x8& lanes, int64_t count) {
  std::memcpy(to, &lanes, static_cast<size_t>(count) * sizeof(float));
}
/// Calls body(first, count) for eight channels at a time, then for the rest.
template <class Body>
DLPIPE_INLINE inline void for_lanes(int64_t channels, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body(c, std::integral_constant<int64_t, kLanes>());
  if (c < channels) body(c, channels - c);
}
/// The sum of all lanes, in pairs.
DLPIPE_INLINE inline float total_of(const F32x8& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// to[c] = the sum over slices of parts[slice, which, c].
void sum_parts(const Tensor& parts, int64_t which, const Tensor& to) {
  if (!to.defined()) return;
  const int64_t slices = parts.size(0);
  const int64_t channels = parts.size(2);
  const float* from = parts.data<float>() + which * channels;
  float* sums = to.data<float>();
  on_best_isa([=]() DLPIPE_INLINE {
    std::fill_n(sums, channels, 0.0f);
    for (int64_t slice = 0; slice < slices; ++slice) {
      for (int64_t c = 0; c < channels; ++c) sums[c] += from[slice * 2 * channels + c];
    }
  });
}

}  // namespace

void normalize_rows(const RowNorms& norms) {
  const int64_t channels = norms.x.size(-1);
  const StoredRows x_rows(norms.x), branch_rows(norms.branch), sum_rows(norms.sum), y_rows(norms.y);
  const float* scale = norms.gamma.data<float>();
  const float* shift = norms.beta.data<float>();
  float* mean_of = norms.means.data<float>();
  float* inverse_of = norms.inverses.data<float>();
  const auto small = static_cast<float>(norms.epsilon);
  parallel_ranges(norms.means.elements(), rows_per_slice(channels), [&](int64_t begin, int64_t end) {
    float* const scratch = scratch_rows(4, channels);
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * channels;
        const float* from = x_rows.read(at, channels, scratch);
        if (branch_rows.data != nullptr) {
          const float* const other = branch_rows.read(at, channels, scratch + channels);
          float* const both = sum_rows.target(at, scratch + 2 * channels);
          for_lanes(channels, [=](int64_t c, auto count) DLPIPE_INLINE {
            store_some(both + c, load_some(from + c, count) + load_some(other + c, count), count);
          });
          sum_rows.write(at, channels, both);
          from = sum_rows.read(at, channels, both);
        }
        F32x8 sum_x = {}, sum_squares = {};
        for_lanes(channels,
                  [&](int64_t c, auto count) DLPIPE_INLINE { sum_x += load_some(from + c, count); });
        const float mean = total_of(sum_x) / static_cast<float>(channels);
        for_lanes(channels, [&](int64_t c, auto count) DLPIPE_INLINE {
          const F32x8 distance = load_some(from + c, count) - some(mean, count);
          sum_squares += distance * distance;
        });
        const float variance = total_of(sum_squares) / static_cast<float>(channels);
        const float inverse = 1.0f / vector_math::sqrt(variance + small);
        float* const to = y_rows.target(at, scratch + 3 * channels);
        for_lanes(channels, [=](int64_t c, auto count) DLPIPE_INLINE {
          const F32x8 normal = (load_some(from + c, count) - mean) * inverse;
          store_some(to + c, normal * load_some(scale + c, count) + load_some(shift + c, count), count);
        });
        y_rows.write(at, channels, to);
        mean_of[row] = mean;
        inverse_of[row] = inverse;
      }
    });
  });
}

// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std, plus x's own incoming gradient.
void normalize_rows_gradient(const RowNormGradients& gradients) {
  const int64_t channels = gradients.x.size(-1);
  const int64_t rows = gradients.means.elements();
  const int64_t per_slice = rows_per_slice(channels);
  const StoredRows x_rows(gradients.x), grad_x_rows(gradients.grad_x), grad_y_rows(gradients.grad_y);
  const StoredRows first(gradients.to_x[0]), second(gradients.to_x.size() > 1 ? gradients.to_x[1] : Tensor());
  const float* scale = gradients.gamma.data<float>();
  const float* mean_of = gradients.means.data<float>();
  const float* inverse_of = gradients.inverses.data<float>();
  const Tensor parts = Tensor::empty({divide_up(rows, per_slice), 2, channels});  // sums for gamma and beta
  float* const all_parts = parts.data<float>();
  parallel_slices(parts.size(0), [&](int64_t slice) {
    const int64_t begin = slice * per_slice;
    const int64_t end = std::min(rows, begin + per_slice);
    float* const scratch = scratch_rows(4, channels);
    float* const part = all_parts + slice * 2 * channels;
    on_best_isa([=]() DLPIPE_INLINE {
      float* const gamma_sums = part;
      float* const beta_sums = part + channels;
      std::fill_n(part, 2 * channels, 0.0f);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * channels;
        float* const to = first.target(at, scratch);
        const float* const own =
            grad_x_rows.data != nullptr ? grad_x_rows.read(at, channels, scratch + 3 * channels) : nullptr;
        if (grad_y_rows.data != nullptr) {
          const float* const from = x_rows.read(at, channels, scratch + channels);
          const float* const g = grad_y_rows.read(at, channels, scratch + 2 * channels);
          const float mean = mean_of[row];
          const float inverse = inverse_of[row];
          F32x8 sum_g = {}, sum_gn = {};
          for_lanes(channels, [&](int64_t c, auto count) DLPIPE_INLINE {
            const F32x8 scaled = load_some(g + c, count) * load_some(scale + c, count);
            sum_g += scaled;
            sum_gn += scaled * ((load_some(from + c, count) - mean) * inverse);
          });
          const float mean_g = total_of(sum_g) / static_cast<float>(channels);
          const float mean_gn = total_of(sum_gn) / static_cast<float>(channels);
          for_lanes(channels, [=](int64_t c, auto count) DLPIPE_INLINE {
            const F32x8 grad = load_some(g + c, count);
            const F32x8 normal = (load_some(from + c, count) - mean) * inverse;
            F32x8 sum = (grad * load_some(scale + c, count) - mean_g - normal * mean_gn) * inverse;
            if (own != nullptr) sum += load_some(own + c, count);
            store_some(to + c, sum, count);
            store_some(gamma_sums + c, load_some(gamma_sums + c, count) + grad * normal, count);
            store_some(beta_sums + c, load_some(beta_sums + c, count) + grad, count);
          });
        } else if (own != nullptr) {
          std::copy_n(own, channels, to);
        } else {
          std::fill_n(to, channels, 0.0f);
        }
        first.write(at, channels, to);
        second.write(at, channels, to);
      }
    });
  });
  sum_parts(parts, 0, gradients.to_gamma);
  sum_parts(parts, 1, gradients.to_beta);
}

/// Whether all inputs and y are f32 or bf16.
bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const TensorSpec& spec) { return is_f32_or_bf16(spec.dtype); }) &&
         is_f32_or_bf16(attrs.as<LayerNormAttrs>().output);
}

}  // namespace cpu

extern const Kernels layer_norm_cpu;
const Kernels layer_norm_cpu =
    layer_norm_kernels<cpu::normalize_rows, cpu::normalize_rows_gradient>(cpu::supports_normalize_rows);

extern const Kernels add_layer_norm_cpu;
const Kernels add_layer_norm_cpu =
    add_layer_norm_kernels<cpu::normalize_rows, cpu::normalize_rows_gradient>(cpu::supports_normalize_rows);

}  // namespace dlpipe::engine
