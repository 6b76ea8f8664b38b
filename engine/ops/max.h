// The attributes of the op max, shared by its record and its kernels on every backend.
#pragma once

namespace dlpipe::engine {

struct MaxAttrs {
  int axis = 0;  // counted from the front
  bool keep_dims = false;
};

}  // namespace dlpipe::engine
