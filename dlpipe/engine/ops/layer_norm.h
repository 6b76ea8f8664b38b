#pragma once

namespace dlpipe::engine {

struct LayerNormAttrs {
  double epsilon = 1e-5;
};

}  // namespace dlpipe::engine
