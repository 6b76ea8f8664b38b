#pragma once

namespace dlpipe::engine {

struct MaxAttrs {
  int axis = 0;  // counted from the front
  bool keep_dims = false;
};

}  // namespace dlpipe::engine
