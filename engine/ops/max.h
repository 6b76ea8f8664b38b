// The attributes of the op max, shared by its record and its kernels on every backend.
#pragma once

namespace dlpipe::engine {

struct MaxAttrs {
  int axis = 0;  // counted from the front
  bool keep_dims = false;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
    visit("keep_dims", self.keep_dims);
  }
};

}  // namespace dlpipe::engine
