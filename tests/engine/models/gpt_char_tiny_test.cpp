#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(GptCharTiny, DoesWhatModelsDo) {
  ModelArguments arguments{.classes = 11, .seed = 1};
  arguments.length = 20;
  check_model("gpt_char_tiny", arguments);
}

TEST(GptCharTiny, HasTheParametersOfItsPlan) {
  const int64_t block =
      2 * 2 * 128 + (128 + 1) * 3 * 128 + (128 + 1) * 128 + (128 + 1) * 512 + (512 + 1) * 128;
  ModelArguments arguments{.classes = 65};
  arguments.length = 64;
  EXPECT_EQ(count_parameters("gpt_char_tiny", arguments), 65 * 128 + 64 * 128 + 4 * block + 2 * 128);
}

}  // namespace
}  // namespace dlpipe::engine
