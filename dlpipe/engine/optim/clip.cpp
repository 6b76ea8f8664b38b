#include "dlpipe/engine/optim/clip.h"

#include <array>
#include <cmath>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/cpu/parallel.h"

namespace dlpipe::engine {
namespace {

// Part of the definition of the norm: one partial sum a slice.
constexpr int64_t kSlice = 16384;

/// Sum of squares with eight running sums, so that a compiler may keep them in vectors without changing any
/// bit.
double sum_of_squares(const float* values, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += double{values[i]} * values[i];
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
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
