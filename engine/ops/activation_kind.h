// The activations that a product can do in its own pass over memory.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dlpipe::engine {

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kGelu,  // exact, erf
};

/// What graphs call them (core/attr_form.h).
constexpr std::array<std::string_view, 3> attr_names(Activation) {
  return {"none", "relu", "gelu"};
}

}  // namespace dlpipe::engine
