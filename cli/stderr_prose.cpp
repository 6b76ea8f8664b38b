#include "dlpipe/cli/stderr_prose.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"

namespace dlpipe::cli {

size_t stderr_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string stderr_prose(const std::string& text) {
  constexpr size_t kIndent = 2, kLeast = 20;
  const size_t width = stderr_width();
  if (width < kLeast) return text;
  std::string all;
  for (const std::string& line : split(text, '\n'))
    all += (columns(line) <= width ? line : wrap(line, width - kIndent, kIndent)) + "\n";
  all.pop_back();  // that of the last line
  return all;
}

}  // namespace dlpipe::cli
