// Reading the messages that hold tensors, whose elements may lie in the model or in a file beside it. Internal to
// engine/onnx.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/onnx/onnx_file.h"

namespace dlpipe::engine::onnx {

inline constexpr size_t kMostAxes = 16;

/// kCorrupt: "[onnx] WHAT; export the model again".
Status corrupt(std::string_view what);

/// StringStringEntryProto: a key and its value.
Result<std::pair<std::string, std::string>> parse_entry(std::string_view message);

/// TensorProto. `folder`: where files of elements lie; "" refuses those.
Result<TensorValue> parse_tensor(std::string_view bytes, const std::string& folder);

}  // namespace dlpipe::engine::onnx
