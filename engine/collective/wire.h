// What the values of a collective are on their way between processes.
#pragma once

#include <cstdint>

namespace dlpipe::engine {

/// As they are, or rounded to bf16, half the bytes.
enum class Wire : uint8_t { kF32, kBf16 };

}  // namespace dlpipe::engine
