// A file of named tensors in a supported format (safetensors or torch.save's), and the detection of other weight files.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "dlpipe/error.h"
#include "io/formats/safetensors.h"
#include "io/formats/torch_file.h"

namespace dlpipe::formats {

/// Its const functions may be called from any thread.
class WeightsFile {
 public:
  /// Errors are those of SafetensorsFile::open, which name other kinds of weights, or of TorchFile::open.
  static Result<WeightsFile> open(const std::string& path);

  const std::string& path() const;
  std::span<const SafetensorsEntry> entries() const;
  /// For safetensors.
  const std::map<std::string, std::string>& metadata() const;
  /// "safetensors" or "pytorch".
  const char* kind() const { return torch() == nullptr ? "safetensors" : "pytorch"; }
  /// TorchFile::part(); "" for safetensors.
  std::string part() const { return torch() == nullptr ? "" : torch()->part(); }
  Status read(const SafetensorsEntry& entry, std::span<std::byte> to) const;

 private:
  explicit WeightsFile(std::variant<SafetensorsFile, TorchFile> file) : file_(std::move(file)) {}
  const TorchFile* torch() const { return std::get_if<TorchFile>(&file_); }

  std::variant<SafetensorsFile, TorchFile> file_;
};

/// What the file `path` is, with the command that converts it to safetensors, if it is one of PyTorch's pickles (a zip archive
/// with a data.pkl, or the older pickle without one) or something else that is mistaken for weights. `begin` and `end` are the
/// first and last bytes of the file, which may overlap. Empty for everything else.
std::string describe_foreign_weights(const std::string& path, std::string_view begin, std::string_view end);

/// Whether a file with these first bytes is an ONNX model.
bool begins_as_onnx(std::string_view begin);

}  // namespace dlpipe::formats
