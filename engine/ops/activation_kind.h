// The activations that a product can do in its own pass over memory.
#pragma once

#include <cstdint>

namespace dlpipe::engine {

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kGelu,  // exact, erf
};

}  // namespace dlpipe::engine
