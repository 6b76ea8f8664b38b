#include "dlpipe/io/formats/weights_file.h"

#include <array>
#include <fstream>
#include <string_view>

#include "dlpipe/base/regular_file.h"

namespace dlpipe::formats {

Result<WeightsFile> WeightsFile::open(const std::string& path) {
  DLPIPE_RETURN_IF_ERROR(stamp_regular_file("weights", path).status());
  std::array<char, 64> begin{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(begin.data(), begin.size());
  if (begins_as_torch(std::string_view(begin.data(), static_cast<size_t>(stream.gcount())))) {
    DLPIPE_ASSIGN_OR_RETURN(TorchFile file, TorchFile::open(path));
    return WeightsFile(std::move(file));
  }
  DLPIPE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  return WeightsFile(std::move(file));
}

const std::string& WeightsFile::path() const {
  return std::visit([](const auto& file) -> const std::string& { return file.path(); }, file_);
}

std::span<const SafetensorsEntry> WeightsFile::entries() const {
  return std::visit([](const auto& file) { return file.entries(); }, file_);
}

const std::map<std::string, std::string>& WeightsFile::metadata() const {
  static const std::map<std::string, std::string> kNone;
  const auto* const file = std::get_if<SafetensorsFile>(&file_);
  return file == nullptr ? kNone : file->metadata();
}

Status WeightsFile::read(const SafetensorsEntry& entry, std::span<std::byte> to) const {
  return std::visit([&](const auto& file) { return file.read(entry, to); }, file_);
}

}  // namespace dlpipe::formats
