#include "dlpipe/engine/optim/clip.h"

#include <cmath>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/optim/lane_sum.h"

namespace dlpipe::engine {
namespace {

// Part of the definition of the norm: one partial sum per slice.
constexpr int64_t kSlice = 16384;

double sum_of_squares(const float* values, int64_t count) {
  return lane_sum(count, [values](int64_t i) { return double{values[i]} * values[i]; });
}

struct Slice {
  float* values;
  int64_t count;
};

/// All gradients in slices; a gradient with gaps is first replaced by a copy without.
std::vector<Slice> slice_gradients(std::span<const NamedTensor> parameters) {
  std::vector<Slice> slices;
  for (const NamedTensor& parameter : parameters) {
    Tensor grad = parameter.tensor.grad();
    if (!grad.defined()) continue;
    if (!grad.is_contiguous()) {
      grad = grad.contiguous_copy();
      Tensor owner = parameter.tensor;
      owner.set_grad(grad);
    }
    float* const values = grad.data<float>();
    for (int64_t begin = 0; begin < grad.elements(); begin += kSlice) {
      slices.push_back({values + begin, std::min(kSlice, grad.elements() - begin)});
    }
  }
  return slices;
}

double norm_of(const std::vector<Slice>& slices) {
  std::vector<double> partial(slices.size());
  parallel_slices(static_cast<int64_t>(slices.size()), [&](int64_t i) {
    const Slice& slice = slices[static_cast<size_t>(i)];
    partial[static_cast<size_t>(i)] = sum_of_squares(slice.values, slice.count);
  });
  double total = 0.0;
  for (const double sum : partial) total += sum;
  return std::sqrt(total);
}

}  // namespace

double grad_norm(std::span<const NamedTensor> parameters) {
  return norm_of(slice_gradients(parameters));
}

double clip_grad_norm(std::span<const NamedTensor> parameters, double max_norm) {
  if (!(max_norm > 0.0)) {
    throw Error(Status(ErrorCode::kMisuse,
                       concat("[clip_grad_norm] expected a norm above 0, got ", max_norm, "; change it")));
  }
  const std::vector<Slice> slices = slice_gradients(parameters);
  const double norm = norm_of(slices);
  const auto factor = static_cast<float>(max_norm / (norm + 1e-6));
  if (!std::isfinite(norm) || factor >= 1.0f) return norm;
  parallel_slices(static_cast<int64_t>(slices.size()), [&](int64_t i) {
    const Slice& slice = slices[static_cast<size_t>(i)];
    for (int64_t k = 0; k < slice.count; ++k) slice.values[k] *= factor;
  });
  return norm;
}

}  // namespace dlpipe::engine
