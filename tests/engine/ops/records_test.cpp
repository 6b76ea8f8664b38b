// What an op's record makes possible is checked for every op of the table. tests/engine/ops/NAME_test.cpp
// holds what is special about one.
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

class Records : public testing::TestWithParam<OpRow> {};

TEST_P(Records, PassEveryCheck) {
  check_op(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ops, Records, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& param) { return std::string(param.param.record->name); });

}  // namespace dlpipe::engine
