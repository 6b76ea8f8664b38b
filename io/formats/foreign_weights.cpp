#include "dlpipe/io/formats/foreign_weights.h"

#include <filesystem>

#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"

namespace dlpipe::formats {

namespace {

using namespace std::string_view_literals;

// A file may hold the tensors themselves or, beside an optimizer's state, under "state_dict" or "model".
// Copies: safetensors refuses tensors that share memory.
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

// A protobuf ModelProto: the version of its format first, then mostly the producer's name, the opset or the graph. A
// safetensors header, whose length could look the same, has a '{' behind eight bytes.
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
  // A pickle begins with its protocol. The length of a safetensors header can look the same, and a '{'
  // follows.
  if (begin.size() > 8 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5 && begin[8] != '{')
    return concat("a Python pickle, as PyTorch wrote weights before 1.6, not safetensors",
                  conversion(path, kLoad));
  if (begins_as_onnx(begin)) {
    const std::string to = std::filesystem::path(path).replace_extension(".dlg").string();
    return concat("an ONNX model, not safetensors; compile it with: dlpipe compile ", shell_word(path),
                  " -o ", shell_word(to),
                  "; --val-augment and --classes add how images become its input and what its outputs mean");
  }
  if (begin.starts_with("version https://git-lfs"))
    return "a pointer of Git LFS, not the file itself; fetch it with: git lfs pull";
  if (begin.starts_with("\x89HDF\r\n"sv))
    return "an HDF5 file, as Keras writes, not safetensors; export the model to ONNX, and give that to "
           "dlpipe compile";
  if (std::filesystem::path(path).extension() == ".onnx")
    return "named as an ONNX model and is none; get it anew, or export the model again";
  if (begin.starts_with("GGUF")) return "a GGUF file, not safetensors; get the weights as safetensors";
  return {};
}

}  // namespace dlpipe::formats
