// A size or step along height and width; one number means both.
#pragma once

#include <array>

namespace dlpipe::engine {

struct Size2 {
  int height;
  int width;
  constexpr Size2(int both) : height(both), width(both) {}  // NOLINT: implicit by design
  constexpr Size2(int height_in, int width_in) : height(height_in), width(width_in) {}
  constexpr operator std::array<int, 2>() const { return {height, width}; }  // NOLINT: implicit by design
};

}  // namespace dlpipe::engine
