// Reads the messages that contain tensors, with elements in the model or in a file next to it. Internal to
// engine/onnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/error.h"
#include "dlpipe/onnx.h"

namespace dlpipe::engine::onnx {

inline constexpr size_t kMostAxes = 16;

/// kCorrupt: "[onnx] WHAT; export the model again".
Status corrupt(std::string_view what);

/// StringStringEntryProto: a key and its value.
Result<std::pair<std::string, std::string>> parse_entry(std::string_view message);

/// Files next to a model that contain elements of its tensors.
struct BesideModel {
  std::string folder;         // "" refuses such tensors
  std::string linked_folder;  // the folder of the file that the model's file links to; "": no link
  bool is_counting = false;   // count their bytes instead of reading them
  uint64_t bytes = 0;         // of all such tensors; several may refer to the same bytes
};

/// Checks that a tensor has the number of bytes for its sizes and type: else kCorrupt, or kUnsupported for a type that dlpipe
/// doesn't support. `name` is its name in errors.
Status check_bytes(std::string_view name, const TensorValue& tensor);

/// TensorProto.
Result<TensorValue> parse_tensor(std::string_view bytes, BesideModel& beside);

}  // namespace dlpipe::engine::onnx
