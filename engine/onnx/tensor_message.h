// Reading the messages that hold tensors, whose elements may lie in the model or in a file beside it. Internal to
// engine/onnx.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Files beside a model, in which elements of its tensors lie.
struct BesideModel {
  std::string folder;         // "" refuses such tensors
  std::string linked_folder;  // of what the model's file links to; "": no link
  bool is_counting = false;   // then their bytes are counted, not read
  uint64_t bytes = 0;         // of all such tensors; several of them may name the same ones
};

/// Unless a tensor has as many bytes as its sizes and type say: kCorrupt, or kUnsupported for a type that dlpipe lacks.
/// `name` is what errors call it.
Status check_bytes(std::string_view name, const TensorValue& tensor);

/// TensorProto.
Result<TensorValue> parse_tensor(std::string_view bytes, BesideModel& beside);

}  // namespace dlpipe::engine::onnx
