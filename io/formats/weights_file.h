// A file of named tensors in one of the forms that are read: safetensors, or what torch.save wrote.
//
// Its const functions may be called from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "dlpipe/base/error.h"
#include "dlpipe/io/formats/safetensors.h"
#include "dlpipe/io/formats/torch_file.h"

namespace dlpipe::formats {

class WeightsFile {
 public:
  /// Errors are those of SafetensorsFile::open, which name the other kinds of weights, or of TorchFile::open.
  static Result<WeightsFile> open(const std::string& path);

  const std::string& path() const;
  std::span<const SafetensorsEntry> entries() const;
  /// Of safetensors.
  const std::map<std::string, std::string>& metadata() const;
  /// "safetensors" or "pytorch".
  const char* kind() const { return torch() == nullptr ? "safetensors" : "pytorch"; }
  /// TorchFile::part(); "" of safetensors.
  std::string part() const { return torch() == nullptr ? "" : torch()->part(); }
  Status read(const SafetensorsEntry& entry, std::span<std::byte> to) const;

 private:
  explicit WeightsFile(std::variant<SafetensorsFile, TorchFile> file) : file_(std::move(file)) {}
  const TorchFile* torch() const { return std::get_if<TorchFile>(&file_); }

  std::variant<SafetensorsFile, TorchFile> file_;
};

}  // namespace dlpipe::formats
