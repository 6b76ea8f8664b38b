#include "dlpipe/io/data/sources/folders/names_as_classes.h"

#include <set>
#include <vector>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

namespace {

// class_in_name() once more.
constexpr std::string_view kSed = R"(sed -nE 's/^([A-Za-z].*)[._-][0-9]+\.[A-Za-z]+$/&,\1/p')";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string_view class_in_name(std::string_view name) {
  const size_t ending = name.rfind('.');
  const size_t last = name.substr(0, ending).find_last_not_of("0123456789");
  if (ending == std::string_view::npos || last == std::string_view::npos || last == 0 || last + 1 == ending ||
      ending + 1 == name.size())
    return {};
  for (const char c : name.substr(ending + 1)) {
    if (!is_letter(c)) return {};
  }
  const bool is_divided = std::string_view("._-").find(name[last]) != std::string_view::npos;
  const bool breaks_lines = name.find_first_of(",\"\n") != std::string_view::npos;
  return is_divided && is_letter(name[0]) && !breaks_lines ? name.substr(0, last) : std::string_view();
}

std::string hint_of_names(const std::string& folder, std::span<const std::string> names) {
  std::set<std::string> classes;
  for (const std::string& name : names) {
    const std::string_view one = class_in_name(name);
    if (one.empty()) return {};
    classes.emplace(one);
  }
  if (classes.size() < 2 || 2 * classes.size() > names.size()) return {};
  const std::string path = shell_word(folder);
  return concat("if the names of its files do (",
                quoted_names(std::vector<std::string>(classes.begin(), classes.end()), 3), "): `(cd ", path,
                " && echo path,label && ls | ", kSed, ") > list.csv && dlpipe ingest ", path,
                " DST --manifest list.csv`");
}

}  // namespace dlpipe::data
