// The attributes of the op concat, shared by its record and its kernels on every backend.
#pragma once

namespace dlpipe::engine {

struct ConcatAttrs {
  int axis = 0;  // from the front

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
  }
};

}  // namespace dlpipe::engine
