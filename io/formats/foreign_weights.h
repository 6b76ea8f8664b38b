// Weights files of other kinds, told by their content: what they are, and how they become safetensors.
#pragma once

#include <string>
#include <string_view>

namespace dlpipe::formats {

/// What the file `path` is, with the command that makes a safetensors file of it, where its content is one of
/// PyTorch's pickles (a zip archive with a data.pkl, or the older pickle without one), or something else that
/// people take for weights. `begin` and `end` are the first and last bytes of the file, which may overlap.
/// Empty for everything else.
std::string describe_foreign_weights(const std::string& path, std::string_view begin, std::string_view end);

/// Whether a file of these first bytes is an ONNX model.
bool begins_as_onnx(std::string_view begin);

}  // namespace dlpipe::formats
