// A program's global locale that writes 1234567.5 as 1.234.567,5, for the time that a GroupingLocale lives; C's locale, too,
// where the machine has a German one. The test's own streams of that time are made with it.
#pragma once

#include <clocale>
#include <locale>
#include <string>

namespace dlpipe::test {

class GroupingLocale {
 public:
  GroupingLocale()
      : before_(std::locale::global(std::locale(std::locale::classic(), new Punctuation))),
        c_before_(std::setlocale(LC_NUMERIC, nullptr)) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE"}) {
      if (std::setlocale(LC_NUMERIC, name) != nullptr) break;
    }
  }
  ~GroupingLocale() {
    std::locale::global(before_);
    std::setlocale(LC_NUMERIC, c_before_.c_str());
  }
  GroupingLocale(const GroupingLocale&) = delete;
  GroupingLocale& operator=(const GroupingLocale&) = delete;

 private:
  struct Punctuation final : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    char do_decimal_point() const override { return ','; }
    std::string do_grouping() const override { return "\3"; }
    std::string do_truename() const override { return "wahr"; }
  };

  std::locale before_;
  std::string c_before_;
};

}  // namespace dlpipe::test
