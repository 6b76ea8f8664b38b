// The attributes of the op transpose, shared by its record and its kernels on every backend.
#pragma once

#include <vector>

namespace dlpipe::engine {

struct TransposeAttrs {
  std::vector<int> permutation;  // axis i of the output is axis permutation[i] of the input; from the front

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("permutation", self.permutation);
  }
};

}  // namespace dlpipe::engine
