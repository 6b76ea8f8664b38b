#include "dlpipe/base/shell_word.h"

#include <algorithm>
#include <cctype>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

static bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("/._-+=:,@%").find(c) != std::string_view::npos;
}

std::string shell_word(std::string_view text) {
  const bool is_option = text.starts_with('-') && text.size() > 1;
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain))
    return is_option ? concat("./", text) : std::string(text);
  if (is_option) return shell_word(concat("./", text));
  if (printable(text) != text) {
    std::string quoted = "$'";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      quoted += byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\' ? "\\x" + hex64(byte).substr(14)
                                                                      : std::string(1, c);
    }
    return quoted + "'";
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace dlpipe
