#include "engine/optim/gradients.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/device_memory.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {
namespace {

double sum_of_squares(const float* values, int64_t count) {
  return lane_sum(count, [values](int64_t i) { return double{values[i]} * values[i]; });
}

struct Slice {
  float* values;  // null: another process has them
  int64_t count;
};

/// Appends the slices of a tensor, which have one partial sum each. Their sizes are part of the definition of the norm. `values`
/// has the elements in `own`.
void append_slices(float* values, Share own, int64_t elements, std::vector<Slice>* slices) {
  for (int64_t begin = 0; begin < elements; begin += kShareUnit) {
    const bool is_own = begin >= own.begin && begin < own.end;
    slices->push_back(
        {is_own ? values + (begin - own.begin) : nullptr, std::min(kShareUnit, elements - begin)});
  }
}

/// The slices of all gradients. Replaces a gradient that isn't contiguous by a copy that is.
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
    append_slices(grad.data<float>(), {0, grad.elements()}, grad.elements(), &slices);
  }
  return slices;
}

std::vector<Slice> slice_gradients(const OwnGradients& own) {
  std::vector<Slice> slices;
  for (size_t p = 0; p < own.parameters.size(); ++p) {
    Tensor grad = own.gradients[p];
    if (!grad.defined()) continue;
    append_slices(grad.data<float>(), own.shares[p], own.parameters[p].tensor.elements(), &slices);
  }
  return slices;
}

std::vector<double> squares_of(const std::vector<Slice>& slices) {
  std::vector<double> partial(slices.size());
  parallel_slices(static_cast<int64_t>(slices.size()), [&](int64_t i) {
    const Slice& slice = slices[static_cast<size_t>(i)];
    if (slice.values != nullptr) partial[static_cast<size_t>(i)] = sum_of_squares(slice.values, slice.count);
  });
  return partial;
}

void clip_slices(const std::vector<Slice>& slices, double max_norm, double norm) {
  const auto factor = static_cast<float>(max_norm / (norm + 1e-6));
  if (!std::isfinite(norm) || factor >= 1.0f) return;
  parallel_slices(static_cast<int64_t>(slices.size()), [&](int64_t i) {
    const Slice& slice = slices[static_cast<size_t>(i)];
    if (slice.values == nullptr) return;
    for (int64_t k = 0; k < slice.count; ++k) slice.values[k] *= factor;
  });
}

}  // namespace

std::vector<double> grad_squares(const OwnGradients& own) {
  return squares_of(slice_gradients(own));
}

double norm_of_squares(std::span<const double> squares) {
  double total = 0.0;
  for (const double sum : squares) total += sum;
  return std::sqrt(total);
}

void clip_to_norm(const OwnGradients& own, double max_norm, double norm) {
  clip_slices(slice_gradients(own), max_norm, norm);
}

double grad_norm(std::span<const NamedTensor> parameters) {
  return norm_of_squares(squares_of(slice_gradients(parameters)));
}

void clip_to_norm(std::span<const NamedTensor> parameters, double max_norm, double norm) {
  clip_slices(slice_gradients(parameters), max_norm, norm);
}

double clip_grad_norm(std::span<const NamedTensor> parameters, double max_norm) {
  if (!(max_norm > 0.0)) {
    refuse("clip_grad_norm", "expected a norm above 0, got ", max_norm, "; change it");
  }
  const std::vector<Slice> slices = slice_gradients(parameters);
  const double norm = norm_of_squares(squares_of(slices));
  clip_slices(slices, max_norm, norm);
  return norm;
}

GradScaler::GradScaler(Device& device)
    : device_(device),
      memory_(Tensor::empty({{static_cast<int64_t>(sizeof(Memory))}, DType::kU8, Layout::kPlain}, device)) {
  set_state({});
}

Tensor GradScaler::seed(const Shape& shape) const {
  return Tensor::borrow(&memory()->scale, shape, DType::kF32, device_);
}

cuda::LossScale GradScaler::loss_scale() const {
  cuda::LossScale loss_scale;
  loss_scale.scale = &memory()->scale;
  loss_scale.inverse = &memory()->inverse;
  loss_scale.good_steps = &memory()->good_steps;
  return loss_scale;
}

GradScaler::State GradScaler::state() const {
  Memory values{};
  copy_memory(cpu_device(), &values, device_, memory_.raw(), sizeof values);
  return {values.scale, values.good_steps};
}

void GradScaler::set_state(const State& state) {
  Memory values{state.scale, 1.0f / state.scale, state.good_steps};
  copy_memory(device_, memory_.raw(), cpu_device(), &values, sizeof values);
}

}  // namespace dlpipe::engine
