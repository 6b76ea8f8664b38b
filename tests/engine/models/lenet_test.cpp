#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Lenet, DoesWhatModelsDo) {
  check_model("lenet", {5, 3, 20, 29, 1});
}

TEST(Lenet, HasThePapersSizesAt28) {
  // LeNet-5's with full connections between the convolutions: 156 + 2,416 + 48,120 + 10,164 + 850.
  EXPECT_EQ(count_parameters("lenet", {10, 1, 28, 28, 0}), 61706);
}

TEST(Lenet, RefusesImagesThatVanishOnTheWay) {
  check_model("lenet", {2, 1, 12, 12, 1});
  try {
    value_or_throw(ModelRegistry::builtin().find("lenet"))->build({10, 1, 11, 28, 0});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
    EXPECT_NE(std::string(error.what()).find("[lenet] expected images of at least 12x12"), std::string::npos);
  }
}

}  // namespace
}  // namespace dlpipe::engine
