// A number as texts hold it that are read again.
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace dlpipe {

/// The shortest decimal that reads back as the same double.
inline std::string shortest_decimal(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

}  // namespace dlpipe
