// The attributes of the op cast, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

struct CastAttrs {
  DType dtype = DType::kF32;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("dtype", self.dtype);
  }
};

}  // namespace dlpipe::engine
