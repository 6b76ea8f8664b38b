// The attributes of the op layer_norm, shared by its record and its kernels on every backend.
#pragma once

namespace dlpipe::engine {

struct LayerNormAttrs {
  double epsilon = 1e-5;
};

}  // namespace dlpipe::engine
