// The attributes of the op reshape, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/base/shape.h"

namespace dlpipe::engine {

struct ReshapeAttrs {
  Shape shape;  // no -1

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("shape", self.shape);
  }
};

}  // namespace dlpipe::engine
