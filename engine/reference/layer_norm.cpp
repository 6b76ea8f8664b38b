#include "dlpipe/engine/reference/layer_norm.h"

#include <cmath>
#include <vector>

#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/reference/element.h"

namespace dlpipe::engine {

namespace reference {

void normalize_rows(const Tensor& x, const Tensor& branch, const Tensor& sum, const Tensor& gamma,
                    const Tensor& beta, double epsilon, const Tensor& y, const Tensor& means,
                    const Tensor& inverses) {
  for (int64_t i = 0; branch.defined() && i < sum.elements(); ++i)
    set_element(sum, i, element(x, i) + element(branch, i));
  const Tensor& from = branch.defined() ? sum : x;
  const int64_t channels = x.size(-1);
  const auto count = static_cast<double>(channels);
  for (int64_t row = 0; row < x.elements() / channels; ++row) {
    const int64_t at = row * channels;
    double mean = 0;
    for (int64_t c = 0; c < channels; ++c) mean += element(from, at + c) / count;
    double variance = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double distance = element(from, at + c) - mean;
      variance += distance * distance / count;
    }
    const double inverse = 1 / std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < channels; ++c) {
      const double normal = (element(from, at + c) - mean) * inverse;
      set_element(y, at + c, normal * element(gamma, c) + element(beta, c));
    }
    set_element(means, row, mean);
    set_element(inverses, row, inverse);
  }
}

// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std, and what came for x
// itself.
void normalize_rows_gradient(const Tensor& x, const Tensor& gamma, const Tensor& means,
                             const Tensor& inverses, const Tensor& grad_x, const Tensor& grad_y,
                             std::span<const Tensor> to_x, const Tensor& to_gamma, const Tensor& to_beta) {
  const int64_t channels = x.size(-1);
  const auto count = static_cast<double>(channels);
  std::vector<double> gamma_sums(static_cast<size_t>(channels));
  std::vector<double> beta_sums(static_cast<size_t>(channels));
  for (int64_t row = 0; row < x.elements() / channels; ++row) {
    const double mean = element(means, row);
    const double inverse = element(inverses, row);
    const auto normal = [&](int64_t c) { return (element(x, row * channels + c) - mean) * inverse; };
    const auto grad = [&](int64_t c) { return grad_y.defined() ? element(grad_y, row * channels + c) : 0.0; };
    double mean_g = 0;
    double mean_gn = 0;
    for (int64_t c = 0; c < channels; ++c) {
      mean_g += grad(c) * element(gamma, c) / count;
      mean_gn += grad(c) * element(gamma, c) * normal(c) / count;
      gamma_sums[static_cast<size_t>(c)] += grad(c) * normal(c);
      beta_sums[static_cast<size_t>(c)] += grad(c);
    }
    for (int64_t c = 0; c < channels; ++c) {
      double sum = (grad(c) * element(gamma, c) - mean_g - normal(c) * mean_gn) * inverse;
      if (grad_x.defined()) sum += element(grad_x, row * channels + c);
      for (const Tensor& to : to_x) {
        if (to.defined()) set_element(to, row * channels + c, sum);
      }
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    if (to_gamma.defined()) set_element(to_gamma, c, gamma_sums[static_cast<size_t>(c)]);
    if (to_beta.defined()) set_element(to_beta, c, beta_sums[static_cast<size_t>(c)]);
  }
}

}  // namespace reference

extern const Kernels layer_norm_reference;
const Kernels layer_norm_reference =
    layer_norm_kernels<reference::normalize_rows, reference::normalize_rows_gradient>(nullptr);

}  // namespace dlpipe::engine
