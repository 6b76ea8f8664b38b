#include "base/messages.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "base/text.h"

namespace dlpipe {
namespace {

std::string answer_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  std::array<char, 256> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  pclose(pipe);
  return text;
}

TEST(ShellWord, IsPlainWhereItCanBe) {
  EXPECT_EQ(shell_word("runs/a-1.b_c"), "runs/a-1.b_c");
  EXPECT_EQ(shell_word("https://host:8080/a=b"), "https://host:8080/a=b");
  EXPECT_EQ(shell_word("out dir \xc3\xbc"), "'out dir \xc3\xbc'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("-rf"), "./-rf") << "no option";
  EXPECT_EQ(shell_word("-"), "-") << "the standard input";
  EXPECT_EQ(shell_word("a\nb"), "$'a\\x0ab'");
}

TEST(ShellText, IsNoPath) {
  EXPECT_EQ(shell_text("--lr=0.2"), "--lr=0.2");
  EXPECT_EQ(shell_text("--augment=rrc(32) hflip"), "'--augment=rrc(32) hflip'");
  EXPECT_EQ(shell_text("-1"), "-1");
}

TEST(ShellWord, AShellReadsTheSameBack) {
  for (const std::string& text : {std::string("out dir \xc3\xbc"), std::string("it's $HOME `x` \"y\" *?[a]"),
                                  std::string("~/a;b&c|d<e>f(g)#h!{i}\\")})
    EXPECT_EQ(answer_of(concat("printf %s ", shell_word(text))), text);
}

}  // namespace
}  // namespace dlpipe
