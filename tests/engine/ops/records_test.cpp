// What an op's record makes possible is checked for every op of the table. tests/engine/ops/NAME_test.cpp
// holds what is special about one.
#include <gtest/gtest.h>

#include <string>

#include "engine/ops/elementwise.h"
#include "engine/ops/unary.h"
#include "tests/engine/check_op.h"

namespace dlpipe::engine {

struct ForFloatsAlone {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static float forward(float x, const Attrs&) { return x; }
  static float backward(float grad, float, const Attrs&) { return grad; }
};
struct WithoutAGradient {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kNothing;
  template <class T>
  static T forward(T x, const Attrs&) {
    return x;
  }
};
static_assert(UnaryFormula<ReluFormula> && !UnaryFormula<ForFloatsAlone> && !UnaryFormula<WithoutAGradient>);

class Records : public testing::TestWithParam<OpRow> {};

TEST_P(Records, PassEveryCheck) {
  check_op(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ops, Records, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& param) { return std::string(param.param.record->name); });

}  // namespace dlpipe::engine
