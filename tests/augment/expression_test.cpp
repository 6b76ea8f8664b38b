// One wrong input a kind of mistake; the messages are what a user sees, so they are compared whole.
#include "augment/expression.h"

#include "base/text.h"
#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

std::string canonical(const std::string& expression) {
  return parse_or_die(expression).canonical();
}

TEST(Expression, SpellsEveryParameterOut) {
  EXPECT_EQ(canonical("rrc(224) hflip"),
            "rrc(size=224,scale=0.08..1,ratio=0.75..1.3333333333333333)@1 hflip(p=0.5)@1");
  EXPECT_EQ(canonical(""), "");
  EXPECT_EQ(canonical("  \n "), "");
}

TEST(Expression, IsTheSameHoweverItIsWritten) {
  const std::string once = canonical("rrc(size=224, scale=0.08..1, ratio=3/4..4/3)");
  EXPECT_EQ(canonical("rrc(224)"), once);
  EXPECT_EQ(canonical(" rrc ( 224 , ratio = 0.75..4/3 , scale = 8e-2..1.0 ) "), once);
  EXPECT_EQ(canonical("hflip()"), canonical("hflip"));
  EXPECT_EQ(canonical("hflip(1/2)"), canonical("hflip(.5)"));
  EXPECT_EQ(canonical("resize(224x224)"), "resize(size=224x224)@1");
  EXPECT_EQ(canonical("normalize(0.50:0.25:0.125, none)"), "normalize(mean=0.5:0.25:0.125,std=none)@1");
}

TEST(ExpressionError, UnknownOp) {
  EXPECT_EQ(parse_error("rrc(224) hflp"),
            "[augment] unknown op 'hflp' at position 10 of \"rrc(224) hflp\"; did you mean 'hflip'?");
  const std::string unknown = parse_error("unlike_any_other");
  EXPECT_EQ(
      unknown.rfind("[augment] unknown op 'unlike_any_other' at position 1 of \"unlike_any_other\"; known: "
                    "affine, ",
                    0),
      0u);
  for (const OpRecord* record : OpRegistry::builtin().records())
    EXPECT_NE(unknown.find(record->name), std::string::npos) << record->name;
}

TEST(ExpressionError, QuotesOnlyTheSurroundingsOfALongText) {
  constexpr size_t kMost = 2000;
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "hflip ";
  const std::string wrong = parse_error(many + "hflp " + many);
  EXPECT_NE(wrong.find("unknown op 'hflp' at position 18001 of \"...ip hflip "), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("hflip hflp hflip"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("...\"; did you mean 'hflip'?"), std::string::npos) << wrong;
  for (const std::string& text :
       {many + "hflp", "hflp " + many, many + "rrc(", "hflip(" + many + ")", "hflip(q=" + many + ")",
        "hflip(" + std::string(9000, '1') + ")", std::string(9000, 'x'), "one_of(hflip|" + many + "hflp)"})
    EXPECT_LT(parse_error(text).size(), kMost) << text.substr(0, 20);
  EXPECT_LT(parse_or_die("resize(256) " + many).output({}).status().message().size(), kMost);
}

TEST(ExpressionError, WhatIsNoOpOfOneImageIsToldWhereItIs) {
  EXPECT_EQ(parse_error("hflip mixup(0.2)"),
            "[augment] 'mixup' at position 7 of \"hflip mixup(0.2)\" is not an op for single images; it "
            "mixes the images of a batch: --mixup ALPHA, mixup= in Python");
  EXPECT_NE(parse_error("CutMix").find("--cutmix ALPHA"), std::string::npos);
  EXPECT_NE(parse_error("five_crop(224)").find("--tta five_crop"), std::string::npos);
  EXPECT_NE(parse_error("TenCrop(224)").find("--tta ten_crop"), std::string::npos);
  EXPECT_NE(parse_error("to_float").find("dlpipe calls it 'cast'"), std::string::npos);
}

TEST(ExpressionError, NamesOfOtherLibrariesNameTheOp) {
  for (const auto& [name, op] : {std::pair("RandomResizedCrop(224)", "rrc"),
                                 {"random_resized_crop(224)", "rrc"},
                                 {"RandomHorizontalFlip", "hflip"},
                                 {"HorizontalFlip(p=0.5)", "hflip"},
                                 {"RandomRotation(30)", "rotate"},
                                 {"RandomInvert", "invert"},
                                 {"CoarseDropout", "coarse_dropout"},
                                 {"ISONoise", "iso_noise"}}) {
    const std::string message = parse_error(name);
    EXPECT_TRUE(message.ends_with(concat("; dlpipe calls it '", op, "'"))) << message;
  }
}

TEST(ExpressionError, UnknownParameter) {
  EXPECT_EQ(
      parse_error("rrc(224, scal=0.5..1)"),
      "[augment] rrc: unknown parameter 'scal' at position 10 of \"rrc(224, scal=0.5..1)\"; did you mean "
      "'scale'?");
}

TEST(ExpressionError, MissingParameter) {
  EXPECT_EQ(parse_error("hflip pad_crop(32)"),
            "[augment] pad_crop: pad is missing at position 7 of \"hflip pad_crop(32)\"; it takes "
            "pad_crop(size, pad, mode=zero)");
}

TEST(ExpressionError, TooManyArguments) {
  EXPECT_EQ(parse_error("hflip(0.5, 3)"),
            "[augment] hflip: too many arguments, '3' at position 12 of \"hflip(0.5, 3)\"; it takes "
            "hflip(p=0.5)");
}

TEST(ExpressionError, ParameterGivenTwice) {
  EXPECT_EQ(parse_error("hflip(0.5, p=0.6)"),
            "[augment] hflip: p is given twice at position 12 of \"hflip(0.5, p=0.6)\"; leave one out");
}

TEST(ExpressionError, UnnamedAfterNamed) {
  EXPECT_EQ(parse_error("pad_crop(pad=4, 32)"),
            "[augment] pad_crop: '32' at position 17 of \"pad_crop(pad=4, 32)\" has no name but follows a "
            "named argument; name it too: pad_crop(size, pad, mode=zero)");
}

TEST(ExpressionError, BadNumbersOfEveryKind) {
  EXPECT_EQ(parse_error("hflip(half)"),
            "[augment] hflip: p must be a number such as 0.5 or 3/4, got 'half' at position 7 of "
            "\"hflip(half)\"");
  EXPECT_EQ(parse_error("rrc(224.5)"),
            "[augment] rrc: size must be a size such as 224 or 192x256 (height x width), at most 65536, got "
            "'224.5' at "
            "position 5 of \"rrc(224.5)\"");
  EXPECT_EQ(parse_error("rrc(224, 1..0.5)"),
            "[augment] rrc: scale must be a range such as 0.08..1, lower end first, got '1..0.5' at position "
            "10 of \"rrc(224, 1..0.5)\"");
  EXPECT_EQ(
      parse_error("pad_crop(32, 4.0)"),
      "[augment] pad_crop: pad must be a whole number, got '4.0' at position 14 of \"pad_crop(32, 4.0)\"");
  EXPECT_EQ(
      parse_error("normalize(0.5;0.5)"),
      "[augment] normalize: mean must be numbers such as 0.485:0.456:0.406, got '0.5;0.5' at position 11 "
      "of \"normalize(0.5;0.5)\"");
  for (const char* bad : {"hflip(nan)", "hflip(inf)", "hflip(1/0)", "hflip(1e999)", "rrc(0)", "rrc(-3)",
                          "rrc(99999999999999999999)", "rrc(70000)", "rrc(3x)", "rrc(224, 0.5)",
                          "rrc(224, ..1)", "normalize(0.5:)"}) {
    EXPECT_NE(parse_error(bad).find(" must be "), std::string::npos) << bad;
  }
}

TEST(ExpressionError, UnbalancedBrackets) {
  EXPECT_EQ(parse_error("rrc(224 hflip"),
            "[augment] '(' at position 4 of \"rrc(224 hflip\" is never closed; add ')'");
  EXPECT_EQ(
      parse_error("rrc(224)) hflip"),
      "[augment] unexpected ')' at position 9 of \"rrc(224)) hflip\"; write ops one after another, such "
      "as rrc(224) hflip");
  EXPECT_EQ(parse_error("rrc((224))"),
            "[augment] '(' inside brackets at position 5 of \"rrc((224))\"; close the op before it with ')'");
}

TEST(ExpressionError, StrayCharactersAndEmptyArguments) {
  EXPECT_EQ(
      parse_error("rrc(224), hflip"),
      "[augment] unexpected ',' at position 9 of \"rrc(224), hflip\"; write ops one after another, such "
      "as rrc(224) hflip");
  EXPECT_EQ(parse_error("hflip,rrc(3)"),
            "[augment] unexpected ',' at position 6 of \"hflip,rrc(3)\"; put a blank between ops");
  EXPECT_EQ(parse_error("rrc(224,)"),
            "[augment] empty argument at position 9 of \"rrc(224,)\"; write value or name=value");
  EXPECT_EQ(parse_error("rrc(=224)"),
            "[augment] empty argument at position 5 of \"rrc(=224)\"; write value or name=value");
  EXPECT_EQ(
      parse_error("rrc(size=224 scale=1)"),
      "[augment] two '=' in one argument at position 5 of \"rrc(size=224 scale=1)\"; put a comma between "
      "arguments");
}

TEST(ExpressionError, OrderThatCannotWork) {
  EXPECT_EQ(parse_error("normalize rrc(224)"),
            "[augment] rrc at position 11 of \"normalize rrc(224)\" can't follow normalize, which describes "
            "the finished batch; put normalize at the end");
  EXPECT_EQ(parse_error("rrc(224) cast(f32) cast(bf16)"),
            "[augment] second cast at position 20 of \"rrc(224) cast(f32) cast(bf16)\"; a batch allows only "
            "one, so leave the other out");
}

// Any text gives an error or a chain, never a crash; ends with a bracket, so most bytes of the grammar occur.
TEST(Expression, SurvivesAnyBytes) {
  const std::string alphabet = "rc(224)=.,:x/ hflip\x80\n-";
  RandomStream rng(11, 0);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t length = rng.below(24); length > 0; --length) {
      text += alphabet[rng.below(static_cast<uint32_t>(alphabet.size()))];
    }
    const auto chain = Chain::parse(text);
    if (chain.ok()) continue;
    ASSERT_EQ(chain.status().message().rfind("[augment] ", 0), 0u) << text;
  }
}

}  // namespace
}  // namespace dlpipe::augment
