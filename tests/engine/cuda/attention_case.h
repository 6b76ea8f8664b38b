// What the tests of attention on CUDA go through.
#pragma once

#include <cstdint>

#include "dlpipe/dtype.h"
#include "engine/ops/sequences.h"

namespace dlpipe::engine {

struct AttentionCase {
  const char* name;
  int64_t batch, length;
  int heads;
  int64_t width;
  bool causal;

  Shape qkv() const { return {batch, length, 3 * heads * width}; }
  Shape outputs() const { return {batch, length, heads * width}; }
  AttentionAttrs attrs() const { return {heads, causal}; }
};

}  // namespace dlpipe::engine
