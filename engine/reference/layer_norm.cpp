// layer_norm and add_layer_norm in double, one row after another.
#include "engine/ops/layer_norm.h"

#include <cmath>
#include <vector>

#include "engine/reference/formula.h"

namespace dlpipe::engine {

namespace reference {

void normalize_rows(const RowNorms& norms) {
  for (int64_t i = 0; norms.branch.defined() && i < norms.sum.elements(); ++i)
    set_element(norms.sum, i, element(norms.x, i) + element(norms.branch, i));
  const Tensor& from = norms.branch.defined() ? norms.sum : norms.x;
  const int64_t channels = norms.x.size(-1);
  const auto count = static_cast<double>(channels);
  for (int64_t row = 0; row < norms.x.elements() / channels; ++row) {
    const int64_t at = row * channels;
    double mean = 0;
    for (int64_t c = 0; c < channels; ++c) mean += element(from, at + c) / count;
    double variance = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double distance = element(from, at + c) - mean;
      variance += distance * distance / count;
    }
    const double inverse = 1 / std::sqrt(variance + norms.epsilon);
    for (int64_t c = 0; c < channels; ++c) {
      const double normal = (element(from, at + c) - mean) * inverse;
      set_element(norms.y, at + c, normal * element(norms.gamma, c) + element(norms.beta, c));
    }
    set_element(norms.means, row, mean);
    set_element(norms.inverses, row, inverse);
  }
}

// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std, plus x's own incoming gradient.
void normalize_rows_gradient(const RowNormGradients& gradients) {
  const int64_t channels = gradients.x.size(-1);
  const auto count = static_cast<double>(channels);
  std::vector<double> gamma_sums(static_cast<size_t>(channels));
  std::vector<double> beta_sums(static_cast<size_t>(channels));
  for (int64_t row = 0; row < gradients.x.elements() / channels; ++row) {
    const double mean = element(gradients.means, row);
    const double inverse = element(gradients.inverses, row);
    const auto normal = [&](int64_t c) {
      return (element(gradients.x, row * channels + c) - mean) * inverse;
    };
    const auto grad = [&](int64_t c) {
      return gradients.grad_y.defined() ? element(gradients.grad_y, row * channels + c) : 0.0;
    };
    double mean_g = 0;
    double mean_gn = 0;
    for (int64_t c = 0; c < channels; ++c) {
      mean_g += grad(c) * element(gradients.gamma, c) / count;
      mean_gn += grad(c) * element(gradients.gamma, c) * normal(c) / count;
      gamma_sums[static_cast<size_t>(c)] += grad(c) * normal(c);
      beta_sums[static_cast<size_t>(c)] += grad(c);
    }
    for (int64_t c = 0; c < channels; ++c) {
      double sum = (grad(c) * element(gradients.gamma, c) - mean_g - normal(c) * mean_gn) * inverse;
      if (gradients.grad_x.defined()) sum += element(gradients.grad_x, row * channels + c);
      for (const Tensor& to : gradients.to_x) {
        if (to.defined()) set_element(to, row * channels + c, sum);
      }
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    if (gradients.to_gamma.defined()) set_element(gradients.to_gamma, c, gamma_sums[static_cast<size_t>(c)]);
    if (gradients.to_beta.defined()) set_element(gradients.to_beta, c, beta_sums[static_cast<size_t>(c)]);
  }
}

}  // namespace reference

extern const Kernels layer_norm_reference;
const Kernels layer_norm_reference =
    layer_norm_kernels<reference::normalize_rows, reference::normalize_rows_gradient>(nullptr);

extern const Kernels add_layer_norm_reference;
const Kernels add_layer_norm_reference =
    add_layer_norm_kernels<reference::normalize_rows, reference::normalize_rows_gradient>(nullptr);

}  // namespace dlpipe::engine
