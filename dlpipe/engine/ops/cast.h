#pragma once

#include "dlpipe/engine/op.h"

namespace dlpipe::engine {

struct CastAttrs {
  DType dtype = DType::kF32;
};

}  // namespace dlpipe::engine
