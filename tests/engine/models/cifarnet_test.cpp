#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Cifarnet, DoesWhatModelsDo) {
  check_model("cifarnet", {4, 3, 16, 24, 1});
}

}  // namespace
}  // namespace dlpipe::engine
