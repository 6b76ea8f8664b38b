#include "base/text.h"
#include "base/names.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "tests/base/grouping_locale.h"

namespace dlpipe {
namespace {

TEST(Text, WritesQuantitiesForPeople) {
  EXPECT_EQ(human_bytes(17), "17 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(uint64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(human_seconds(35), "35s");
  EXPECT_EQ(human_seconds(95.4), "1m35s");
  EXPECT_EQ(human_seconds(7500), "2h05m");
  EXPECT_EQ(human_seconds(-1), "?");
  EXPECT_EQ(human_seconds(0.04), "<1s");
  EXPECT_EQ(human_seconds(0), "0s");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(human_count(-1000), "-1,000");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(hex64(0x1234abcdULL), "000000001234abcd");
  EXPECT_EQ(fixed(2.5, 2), "2.50");
  EXPECT_EQ(fixed(-std::numeric_limits<double>::quiet_NaN(), 4), "nan");
}

// Texts are stored, hashed and sent: what a program's global locale says of digits must not reach them.
TEST(Text, NumbersAreWrittenWithoutTheProgramsLocale) {
  const auto written = [] {
    return concat(1234567, " ", uint64_t{1} << 63, " ", int16_t{-12345}, " ", 12345.5, " ", 1e-7, " ", 0.1f,
                  " ", true, " ", 'c', " ", std::string("s"), " ", -HUGE_VAL, " ", fixed(1234567.25, 2), " ",
                  human_count(1234567), " ", human_bytes(1234567));
  };
  const std::string before = written();
  EXPECT_EQ(before,
            "1234567 9223372036854775808 -12345 12345.5 1e-07 0.1 1 c s -inf 1234567.25 1,234,567 1.2 MiB");
  const test::GroupingLocale grouping;
  std::ostringstream stream;
  stream << 1234567;
  ASSERT_EQ(stream.str(), "1.234.567");
  EXPECT_EQ(written(), before);
  double number = 0;
  EXPECT_TRUE(parse_double("1234.5", &number));
  EXPECT_EQ(number, 1234.5);
  EXPECT_EQ(fixed(1e300, 1).size(), 303u);
}

TEST(Text, SuggestsTheNearestNameOrListsAll) {
  const std::vector<std::string> names = {"hflip", "rrc", "resize"};
  EXPECT_EQ(nearest_name("hflp", names), "hflip");
  EXPECT_EQ(nearest_name("quantum", names), "");
  EXPECT_EQ(nearest_name("rcr", names), "rrc") << "two letters exchanged are one mistake";
  EXPECT_EQ(nearest_name("--int8", std::vector<std::string>{"--init"}), "") << "half of its letters differ";
  EXPECT_EQ(suggestion("resise", names), "; did you mean 'resize'?");
  EXPECT_EQ(suggestion("quantum", names), "; known: hflip, rrc, resize");
  const std::vector<std::string> models = {"lenet", "resnet18", "resnet50"};
  EXPECT_EQ(suggestion("resnet", models), "; did you mean 'resnet18', 'resnet50'?");
  const std::vector<std::string> tasks = {"classify", "regress", "segment"};
  EXPECT_EQ(suggestion("classification", tasks), "; did you mean 'classify'?");
  EXPECT_EQ(suggestion("segmentation", tasks), "; did you mean 'segment'?");
  EXPECT_EQ(suggestion("class", std::vector<std::string>{"clash", "clip"}), "; did you mean 'clash'?");
  const std::vector<std::string> losses = {"bce", "cross_entropy", "cross_entropy_dice", "mse"};
  EXPECT_EQ(suggestion("ce", losses), "; did you mean 'cross_entropy'?");
  EXPECT_EQ(suggestion("ced", losses), "; did you mean 'cross_entropy_dice'?");
  EXPECT_EQ(suggestion("c", losses), "; known: bce, cross_entropy, cross_entropy_dice, mse");
  EXPECT_EQ(suggestion("--max-foo", std::vector<std::string>{"--max-bad"}), "; known: --max-bad");
  std::vector<std::string> many;
  for (int i = 0; i < 2000; ++i) many.push_back(concat("n0", i, std::string(i == 0 ? 1'000'000 : 0, 'x')));
  for (const char* name : {"quantum", "n01"}) {
    const std::string text = suggestion(name, many);
    EXPECT_LT(text.size(), 1000u) << name;
    EXPECT_NE(text.find(" more"), std::string::npos) << text;
  }
}

TEST(Text, TheNearestNameMayDifferByCaseAlone) {
  const std::vector<std::string> names = {"adam", "adamw", "sgd", "Cat", "cat"};
  for (const char* typed : {"AdamW", "adamW", "ADAMW"})
    EXPECT_EQ(nearest_name(typed, names), "adamw") << typed;
  EXPECT_EQ(nearest_name("SGD", names), "sgd");
  EXPECT_EQ(nearest_name("Adma", names), "adam");
  EXPECT_EQ(nearest_name("Catt", names), "Cat") << "of equals the one that is written alike";
  EXPECT_EQ(nearest_name("catt", names), "cat");
  EXPECT_EQ(nearest_name("X", names), "");
}

TEST(Text, ParsesWholeNumbersOnly) {
  int64_t i = 0;
  EXPECT_TRUE(parse_int("-42", &i));
  EXPECT_EQ(i, -42);
  EXPECT_FALSE(parse_int("42x", &i));
  EXPECT_FALSE(parse_int("", &i));
  EXPECT_FALSE(parse_int("99999999999999999999", &i));
  double d = 0;
  EXPECT_TRUE(parse_double("0.08", &d));
  EXPECT_DOUBLE_EQ(d, 0.08);
  EXPECT_FALSE(parse_double("0.08..1", &d));
}

TEST(Text, ParsesNumbersAsPythonDoes) {
  const double kInfinity = std::numeric_limits<double>::infinity();
  const std::string zeros(400, '0');
  for (const auto& [text, expected] : {std::pair<std::string, double>{"+1.5", 1.5},
                                       {"+1e2", 100},
                                       {"1e400", kInfinity},
                                       {"-1e400", -kInfinity},
                                       {"1" + zeros, kInfinity},
                                       {"1e-400", 0},
                                       {"-1E-400", 0},
                                       {"0." + zeros + "1", 0}}) {
    double d = -7;
    EXPECT_TRUE(parse_double(text, &d)) << text;
    EXPECT_EQ(d, expected) << text;
  }
  double d = 0;
  for (const char* text : {"+", "++1", "+-1", "-+1", "+ 1", "1e400x", ""})
    EXPECT_FALSE(parse_double(text, &d)) << text;
}

TEST(Text, ParsesSizes) {
  uint64_t bytes = 0;
  EXPECT_TRUE(parse_bytes("512B", &bytes));
  EXPECT_EQ(bytes, 512u);
  EXPECT_TRUE(parse_bytes("64K", &bytes));
  EXPECT_EQ(bytes, 65536u);
  EXPECT_TRUE(parse_bytes("1.5 GiB", &bytes));
  EXPECT_EQ(bytes, uint64_t{3} << 29);
  EXPECT_FALSE(parse_bytes("1X", &bytes));
  EXPECT_FALSE(parse_bytes("8", &bytes)) << "bytes or GiB?";
  EXPECT_TRUE(parse_bytes("0", &bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_FALSE(parse_bytes("", &bytes));
  EXPECT_FALSE(parse_bytes("999999999T", &bytes));
}

TEST(Text, SplitsAndTrims) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(trim("  x y\t\n"), "x y");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, GlobsFitTheWholeText) {
  EXPECT_TRUE(matches_glob("layer1.0.bias", "layer1.*"));
  EXPECT_TRUE(matches_glob("layer1.0.bias", "*.bias"));
  EXPECT_FALSE(matches_glob("layer10.bias", "layer1.*"));
  EXPECT_FALSE(matches_glob("bias", "*.bias"));
}

TEST(ClassWeights, NamesMayHaveCommasAndComeOnce) {
  const std::vector<std::string> classes = {"cat", "cat, domestic", "dog"};
  const auto weights = [&](std::string_view text) {
    return class_weights_in("test", "--weights", text, "balanced", classes, "DATA");
  };
  EXPECT_EQ(*weights("dog=3,cat, domestic=2"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(*weights("cat=0.5, dog=2"), (std::vector<double>{0.5, 1, 2}));
  EXPECT_NE(weights("cat=1,cat=2").status().message().find("names 'cat' twice"), std::string::npos);
  for (const char* text : {"", "cat", "cat=1,", "cat=1,dog", "cow=1", "cat=-1", "cat=x"})
    EXPECT_FALSE(weights(text).ok()) << text;
}

}  // namespace
}  // namespace dlpipe
