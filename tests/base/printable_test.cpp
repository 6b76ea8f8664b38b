#include "dlpipe/base/printable.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace dlpipe
