#include "io/formats/weights_file.h"

#include <gtest/gtest.h>

#include "io/formats/atomic_file.h"
#include "io/formats/safetensors.h"
#include "tests/base/test_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {

using test::ScratchFolder;

static std::string golden(const std::string& name) {
  return test_file("io/formats/golden/") + name;
}

// The .pth files are torch.save's (golden/make_pickles.py).
TEST(ForeignWeights, ArePickledTensorsAndTheCommandThatConvertsThemIsGiven) {
  for (const char* name : {"zip.pth", "legacy.pth"}) {
    const Status status = SafetensorsFile::open(golden(name)).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << name;
    for (const char* word : {"not safetensors", "torch.load", "weights_only=True", "save_file", name}) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    }
  }
  const Status script = SafetensorsFile::open(golden("script.pt")).status();
  EXPECT_NE(script.message().find("torch.jit.load"), std::string::npos) << script.message();
}

TEST(ForeignWeights, AnOnnxModelIsAnsweredWithTheCommandThatCompilesIt) {
  // ir_version 10, producer_name "pytorch"
  const std::string said = describe_foreign_weights("a b/m.onnx", "\x08\x0a\x12\x07pytorch", "");
  EXPECT_NE(said.find("dlpipe compile 'a b/m.onnx' -o 'a b/m.dlg'"), std::string::npos) << said;
  EXPECT_EQ(describe_foreign_weights("m", std::string("\x08\x0a\x12\0\0\0\0\0{", 9), ""), "");
}

TEST(ForeignWeights, PathsAreQuotedForTheShell) {
  const std::string said = describe_foreign_weights("my model's.pt", "PK\3\4..data.pkl", "");
  EXPECT_NE(said.find(R"( 'my model'\''s.pt' 'my model'\''s.safetensors')"), std::string::npos) << said;
}

TEST(ForeignWeights, AreToldFromDamagedSafetensors) {
  ScratchFolder folder;
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"},
      {"PK\3\4 and nothing of PyTorch's", "a zip archive"},
      {"", "too short"},
      {std::string("\x80\x04\0\0\0\0\0\0{", 9), "claims a header of 1152 bytes"},  // truncated, no pickle
      {std::string("\x02\0\0\0\0\0\0\0[]", 10), "the header is not a JSON object"},
  };
  for (const auto& c : cases) {
    ASSERT_TRUE(write_file(folder / "x.safetensors", c.bytes).ok());
    const std::string said = SafetensorsFile::open(folder / "x.safetensors").status().message();
    EXPECT_NE(said.find(c.message), std::string::npos) << said;
    EXPECT_NE(said.find("x.safetensors"), std::string::npos) << said;
  }
}

}  // namespace dlpipe::formats
