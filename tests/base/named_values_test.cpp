#include "base/names.h"

#include <gtest/gtest.h>

namespace dlpipe {
namespace {

enum class Fruit { kApple, kPear };
constexpr Named<Fruit> kFruitNames[] = {{"apple", Fruit::kApple}, {"pear", Fruit::kPear}};

TEST(NamedValues, GoFromNameToValueAndBack) {
  for (const Named<Fruit>& one : kFruitNames) {
    EXPECT_EQ(*value_named(kFruitNames, one.name, "cook", "--fruit"), one.value);
    EXPECT_STREQ(name_of(kFruitNames, one.value), one.name);
  }
  EXPECT_EQ(names_of(kFruitNames), (std::vector<std::string>{"apple", "pear"}));
}

TEST(NamedValues, SuggestTheNearestName) {
  const Status status = value_named(kFruitNames, "paer", "cook", "--fruit").status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_EQ(status.message(), "[cook] --fruit paer; did you mean 'pear'?");
}

}  // namespace
}  // namespace dlpipe
