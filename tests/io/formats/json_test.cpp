#include "io/formats/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dlpipe/random.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {

TEST(Json, KeepsTheOrderOfMembersAndRoundTrips) {
  Json value = Json::object({{"z", 1}, {"a", Json(Json::Array{true, Json(), "text", 0.1})}});
  value.set("m", Json::object({{"deep", int64_t{1} << 62}}));
  EXPECT_EQ(value.dump(), R"({"z":1,"a":[true,null,"text",0.1],"m":{"deep":4611686018427387904}})");
  const auto back = Json::parse(value.dump(2));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, value);
}

TEST(Json, DoublesComeBackBitForBit) {
  RandomStream random(1, 0);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.below(600)) - 300);
    EXPECT_EQ(Json::parse(Json(value).dump())->as_double(), value);
  }
}

TEST(Json, NonFiniteNumbersAreWrittenAsNull) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, IntegersBeyond64BitsBecomeDoubles) {
  EXPECT_EQ(Json::parse("18446744073709551615")->as_double(), 18446744073709551615.0);
  EXPECT_FALSE(Json::parse("18446744073709551615")->is_integer());
  EXPECT_EQ(Json::parse("-9223372036854775808")->as_int(), INT64_MIN);
}

TEST(Json, ErrorsSayWhatAndWhere) {
  const Status status = Json::parse("{\"a\": 1,}").status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("byte 9"), std::string::npos) << status.message();
  EXPECT_NE(Json::parse(R"({"a":1,"a":2})").status().message().find("'a' appears twice"), std::string::npos);
}

TEST(Json, HostileNestingIsRefused) {
  EXPECT_FALSE(Json::parse(std::string(1'000'000, '[')).ok());
  EXPECT_TRUE(Json::parse(std::string(200, '[') + std::string(200, ']')).ok());
}

// A value takes many times the memory of its text.
TEST(Json, AMillionValuesAreTheMost) {
  std::string text = "[0";
  for (int i = 1; i < 999'999; ++i) text += ",0";
  EXPECT_TRUE(Json::parse(text + "]").ok());
  const Status status = Json::parse(text + ",0,0]").status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("more than 1000000 values"), std::string::npos) << status.message();
}

TEST(Json, BytesThatAreNotUtf8AreReplacedNotThrown) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xEF\xBF\xBD\"");
}

TEST(Json, APathThatIsNotUtf8StandsBesideItselfInBase64) {
  EXPECT_EQ(Json().set_path("path", "a/caf\xc3\xa9").dump(), "{\"path\":\"a/caf\xc3\xa9\"}");
  EXPECT_EQ(Json().set_path("path", "a/\xe9").set("label", 1).dump(),
            "{\"path\":\"a/\xef\xbf\xbd\",\"path_bytes\":\"YS/p\",\"label\":1}");
}

TEST(Json, ANumberThatNoDoubleHoldsIsRefusedInPlainWords) {
  const Status status = Json::parse("[1, 1e400]").status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(status.message().find("json.exception"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("1e400"), std::string::npos) << status.message();
}

TEST(Json, AnyBytesParseOrAnswerAnError) {
  RandomStream random(2, 0);
  const std::string seed = R"({"a":[1,2.5,{"b":null}],"c":"\u00e9\n","d":-1e3})";
  for (int i = 0; i < 3000; ++i) {
    std::string text = seed;
    for (uint32_t k = 0; k <= random.below(4); ++k) {
      text[random.below(static_cast<uint32_t>(text.size()))] = static_cast<char>(random.below(256));
    }
    const auto value = Json::parse(text);
    EXPECT_EQ(value.ok(), value.status().message().empty());
  }
}

TEST(Json, AFileWithoutTheMemberIsNamed) {
  const Json value = Json::object({{"seed", "seven"}});
  EXPECT_EQ(require_int(value, "seed", "receipt.json").status().message(),
            "[json] no 'seed' (integer) in receipt.json");
}

TEST(Json, FilesRoundTrip) {
  test::ScratchFolder folder;
  const Json value = Json::object({{"a", 1}});
  ASSERT_TRUE(write_json(folder / "a.json", value).ok());
  EXPECT_EQ(*read_json(folder / "a.json"), value);
  EXPECT_EQ(read_json(folder / "b.json").status().code(), ErrorCode::kNotFound);
}

}  // namespace dlpipe::formats
