#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

// Its parts are gpt_char's; what is its own is their size: GPT-2's smallest has 124,439,808 parameters with a
// vocabulary of 50,257 and 1,024 positions.
TEST(Gpt2Small, HasTheParametersOfGpt2) {
  ModelArguments arguments{.classes = 257};
  arguments.length = 24;
  EXPECT_EQ(count_parameters("gpt2_small", arguments), 124439808 - (50000 + 1000) * 768);
}

}  // namespace
}  // namespace dlpipe::engine
