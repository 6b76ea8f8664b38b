#include "base/messages.h"

#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/error.h"

namespace dlpipe {
namespace {

TEST(Printable, NamesFromDataArePrintedWithoutActingOnTheTerminal) {
  EXPECT_EQ(printable("cat, Käfer, 猫, 🐈"), "cat, Käfer, 猫, 🐈");
  EXPECT_EQ(printable("a\x1b[31mb\a\x7f"), "a\\u001b[31mb\\u0007\\u007f");
  EXPECT_EQ(printable("two\nlines\r\t"), "two\\nlines\\r\\t");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe") << "no UTF-8";
  EXPECT_EQ(printable("\xc3"), "\\xc3") << "cut short";
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m")
      << "a control character of two bytes: CSI";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "gpj.exe"),
            "\\u202egpj.exe")
      << "turns the direction of writing";
  EXPECT_EQ(printable("\xef\xbb\xbf"
                      "cat"),
            "\\ufeffcat")
      << "a byte order mark";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a surrogate pair is no character";
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b") << "an overlong form";
  EXPECT_EQ(printable_lines("a\x1b[2J\nb\tc\r"), "a\\u001b[2J\nb\tc\\r");
  EXPECT_EQ(quoted_names(std::vector<std::string>{"a\n", "b", "c"}, 2), "'a\\n', 'b' and 1 more");
  EXPECT_EQ(quoted_names(std::vector<std::string>{"a"}), "'a'");
}

TEST(Shortened, KeepsBeginAndEndAndWholeCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefghi", 6), "abcd... (3 bytes left out) ...hi");
  std::string cats;
  for (int i = 0; i < 100; ++i) cats += "猫";
  for (size_t most = 1; most < 20; ++most) EXPECT_TRUE(is_utf8(shortened(cats, most))) << most;
  const std::string no_utf8(100, '\x80');
  EXPECT_LT(shortened(no_utf8, 10).size(), 50u);
}

TEST(Shortened, MessagesHaveALimitWhateverTheyName) {
  const std::string name(30'000'000, 'x');
  EXPECT_LT(in_quotes(name).size(), 400u);
  EXPECT_LT(quoted_names(std::vector<std::string>(20, name)).size(), 4'000u);
  const Status status(ErrorCode::kCorrupt, "[ingest] a column is called " + name + "; give it another name");
  EXPECT_LT(status.message().size(), 10'000u);
  EXPECT_TRUE(status.message().ends_with("; give it another name"));
}

TEST(Printable, MessagesOfErrorsAreSafeToPrint) {
  const Status status(ErrorCode::kCorrupt, "[ingest] a\x1b[2J\nb");
  EXPECT_EQ(status.message(), "[ingest] a\\u001b[2J\nb");
}

}  // namespace
TEST(Counted, IsSingularForOneAlone) {
  EXPECT_EQ(counted(1, "image"), "1 image");
  EXPECT_EQ(counted(0, "image"), "0 images");
  EXPECT_EQ(counted(1234, "image"), "1,234 images");
  EXPECT_EQ(counted(2, "class", "classes"), "2 classes");
  EXPECT_EQ(counted(1, "file was", "files were"), "1 file was");
}

}  // namespace dlpipe
