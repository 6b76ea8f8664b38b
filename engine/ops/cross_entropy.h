// The attributes of the op cross_entropy, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

struct CrossEntropyAttrs {
  double label_smoothing = 0.0;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("label_smoothing", self.label_smoothing);
  }
};

/// What forward and backward of both backends need of the targets and weights; other losses of classes, too.
struct CrossEntropyTargets {
  const int64_t* label;
  const float* weight32 = nullptr;  // one of the two, or neither: all 1
  const double* weight64 = nullptr;
  int64_t rows;
  double weight_sum = 0;

  /// Checks every label whose weight isn't 0: "[op] label 7 of sample 0 is not one of 5 classes; ...".
  CrossEntropyTargets(const Tensor& target, const Tensor& weight, int64_t classes,
                      const char* op = "cross_entropy");
  double weight(int64_t row) const {
    return weight32 != nullptr ? weight32[row] : weight64 != nullptr ? weight64[row] : 1.0;
  }
};

}  // namespace dlpipe::engine
