#include "io/formats/weights_file.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"

namespace dlpipe::formats {

namespace {

using namespace std::string_view_literals;

// A file may hold the tensors themselves or, next to an optimizer's state, under "state_dict" or "model". The command
// copies them, because safetensors refuses tensors that share memory.
std::string conversion(const std::string& path, std::string_view read) {
  const std::string to = std::filesystem::path(path).replace_extension(".safetensors").string();
  return concat("; convert it with:\n  python3 -c 'import sys, torch, safetensors.torch as s; ", read,
                "; w = w.get(\"state_dict\", w.get(\"model\", w)); "
                "s.save_file({k: v.clone().contiguous() for k, v in w.items() if torch.is_tensor(v)}, "
                "sys.argv[2])' ",
                shell_word(path), " ", shell_word(to));
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

// A protobuf ModelProto: the version of its format first, then usually the producer's name, the opset or the graph. A
// safetensors header, whose length could look the same, has a '{' after eight bytes.
bool begins_as_onnx(std::string_view begin) {
  if (begin.size() <= 8 || begin[8] == '{' || begin[0] != '\x08' || begin[1] < 3 || begin[1] > 32)
    return false;
  return "\x12\x1a\x22\x2a\x32\x3a\x42"sv.find(begin[2]) != std::string_view::npos;
}

std::string describe_foreign_weights(const std::string& path, std::string_view begin, std::string_view end) {
  constexpr auto kLoad = R"(w = torch.load(sys.argv[1], map_location="cpu", weights_only=True))"sv;
  constexpr auto kLoadScript = R"(w = torch.jit.load(sys.argv[1], map_location="cpu").state_dict())"sv;
  if (begin.starts_with("PK\3\4"sv)) {
    const auto holds = [&](std::string_view name) { return contains(begin, name) || contains(end, name); };
    if (holds("constants.pkl"))
      return concat("a TorchScript archive, not safetensors", conversion(path, kLoadScript));
    if (holds("data.pkl"))
      return concat("PyTorch's pickled weights, not safetensors", conversion(path, kLoad));
    return "a zip archive without PyTorch's data.pkl, not safetensors; give the weights' own file";
  }
  // A pickle begins with its protocol. The length of a safetensors header can look the same, but a
  // '{' follows it.
  if (begin.size() > 8 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5 && begin[8] != '{')
    return concat("a Python pickle, as PyTorch wrote weights before 1.6, not safetensors",
                  conversion(path, kLoad));
  if (begins_as_onnx(begin)) {
    const std::string to = std::filesystem::path(path).replace_extension(".dlg").string();
    return concat(
        "an ONNX model, not safetensors; compile it with: dlpipe compile ", shell_word(path), " -o ",
        shell_word(to),
        "; --val-augment and --classes record how images become its input and what its outputs mean");
  }
  if (begin.starts_with("version https://git-lfs"))
    return "a Git LFS pointer, not the file itself; fetch it with: git lfs pull";
  if (begin.starts_with("\x89HDF\r\n"sv))
    return "an HDF5 file, as Keras writes, not safetensors; export the model to ONNX, and pass that to "
           "dlpipe compile";
  if (std::filesystem::path(path).extension() == ".onnx")
    return "named like an ONNX model, but it is not one; get it again, or export the model again";
  if (begin.starts_with("GGUF")) return "a GGUF file, not safetensors; get the weights as safetensors";
  return {};
}

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
