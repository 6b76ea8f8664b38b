// What softmax and log_softmax share.
#pragma once

#include "dlpipe/engine/core/op.h"

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

}  // namespace dlpipe::engine
