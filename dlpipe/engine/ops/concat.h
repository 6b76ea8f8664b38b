#pragma once

namespace dlpipe::engine {

struct ConcatAttrs {
  int axis = 0;  // from the front
};

}  // namespace dlpipe::engine
