#include "dlpipe/cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace dlpipe::cli {

void print_report(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stderr);
}

void print_json(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

static bool looks_numeric(std::string_view cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) ||
                           ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1));
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (c == widths.size()) {
        widths.push_back(0);
        numeric.push_back(rows.size() > 1);
      }
      widths[c] = std::max(widths[c], rows[r][c].size());
      if (r > 0 && !rows[r][c].empty() && !looks_numeric(rows[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const std::string pad(widths[c] - rows[r][c].size(), ' ');
      line += (c ? "  " : "") + (numeric[c] ? pad + rows[r][c] : rows[r][c] + pad);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
    if (r == 0) {
      for (size_t c = 0; c < widths.size(); ++c) text += (c ? "  " : "") + std::string(widths[c], '-');
      text += "\n";
    }
  }
  return text;
}

}  // namespace dlpipe::cli
