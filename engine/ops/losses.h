// Attributes of softmax, log_softmax and cross_entropy, and what the kernels of losses share.
#pragma once

#include "dlpipe/op.h"

namespace dlpipe::engine {

struct SoftmaxAttrs {
  int axis = 0;  // from the front

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
  }
};

std::vector<TensorSpec> softmax_rule(std::string_view op, std::span<const TensorSpec> inputs,
                                     const Attrs& attrs);
std::vector<OpSample> softmax_samples();

struct CrossEntropyAttrs {
  double label_smoothing = 0.0;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("label_smoothing", self.label_smoothing);
  }
};

/// Targets and weights for forward and backward of both backends, and for other classification losses.
struct CrossEntropyTargets {
  const int64_t* label;
  const float* weight32 = nullptr;  // at most one of the two is set; neither: all 1
  const double* weight64 = nullptr;
  int64_t rows;
  double weight_sum = 0;

  /// Checks every label with a nonzero weight: "[op] label 7 of sample 0 is not one of 5 classes; ...".
  CrossEntropyTargets(const Tensor& target, const Tensor& weight, int64_t classes,
                      const char* op = "cross_entropy");
  double weight(int64_t row) const {
    return weight32 != nullptr ? weight32[row] : weight64 != nullptr ? weight64[row] : 1.0;
  }
};

}  // namespace dlpipe::engine
