#include "dlpipe/cli/stderr_prose.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"

namespace dlpipe::cli {

size_t stderr_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Stands for the blanks of a command while a line is wrapped; what is printed holds none of its own (printable_lines).
constexpr char kBlank = '\x1f';

/// Commands, in backticks or behind ": dlpipe", stay in one line, however long, so that they can be copied.
static std::string with_whole_commands(std::string line) {
  bool in_backticks = false, is_command = false;
  for (size_t i = 0; i < line.size(); ++i) {
    in_backticks ^= line[i] == '`';
    if (line.compare(i, 9, ": dlpipe ") == 0) {
      is_command = true;
      ++i;  // the blank in front of it
      continue;
    }
    if (line[i] == ';') is_command = false;
    if (line[i] == ' ' && (in_backticks || is_command)) line[i] = kBlank;
  }
  return line;
}

std::string wrap_sentences(const std::string& line, size_t width, size_t indent) {
  std::string wrapped = wrap(with_whole_commands(line), width, indent);
  std::ranges::replace(wrapped, kBlank, ' ');
  return wrapped;
}

std::string stderr_prose(const std::string& text) {
  constexpr size_t kIndent = 2, kLeast = 20;
  const size_t width = stderr_width();
  if (width < kLeast) return text;
  std::string all;
  for (const std::string& line : split(text, '\n'))
    all += (columns(line) <= width ? line : wrap_sentences(line, width - kIndent, kIndent)) + "\n";
  all.pop_back();  // that of the last line
  return all;
}

}  // namespace dlpipe::cli
