// An augmentation whose code is a function known only at run time: from a script (python/) or from a library loaded by name.
//
//   void negative(uint8_t* pixels, int64_t height, int64_t width, int64_t channels, uint64_t key, const double* parameters);
//
// The function changes an image in place: dense rows of `channels` bytes per pixel. `key` is the sample's own random
// number; the same seed gives the same keys. It is called on many threads at once and must neither throw nor keep
// the pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

using PixelFunction = void (*)(uint8_t* pixels, int64_t height, int64_t width, int64_t channels, uint64_t key,
                               const double* parameters);

struct FunctionOp {
  std::string name;
  std::string help;
  PixelFunction function = nullptr;
  /// Identifies the code: equal codes must make equal pixels. It is part of the op's text ("negative(code=...)"), and so of the
  /// pipeline's id.
  std::string code;
  std::vector<std::pair<std::string, double>> parameters;  // with their defaults, in the function's order
};

/// Adds the op to `registry`, replacing a function of the same name. kMisuse if the name is invalid or one of dlpipe's own.
/// Added functions stay for the rest of the process. One thread at a time.
Status add_function_op(const FunctionOp& op, OpRegistry& registry);

}  // namespace dlpipe::augment
