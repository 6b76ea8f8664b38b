#include "dlpipe/cli/progress_line.h"

#include <algorithm>
#include <cstdio>

#include "dlpipe/base/counter.h"
#include "dlpipe/cli/output.h"

namespace dlpipe::cli {

ProgressLine::ProgressLine() : is_terminal_(stderr_is_terminal()) {}

ProgressLine::~ProgressLine() {
  end();
}

void ProgressLine::show(const std::string& text, bool last) {
  if (is_quiet()) return;
  if (is_terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s", fit_terminal(text).c_str());
    std::fflush(stderr);
    open_ = true;
    return;
  }
  constexpr int64_t kPlainInterval_ns = 5'000'000'000;
  const int64_t now = now_ns();
  if (!last && last_plain_ns_ != 0 && now - last_plain_ns_ < kPlainInterval_ns) return;
  last_plain_ns_ = now;
  print_note(text);
}

void ProgressLine::end() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

std::string progress_bar(int64_t done, int64_t total, int width) {
  const int64_t full = total > 0 ? std::clamp<int64_t>(done * width / total, 0, width) : 0;
  return "[" + std::string(static_cast<size_t>(full), '#') +
         std::string(static_cast<size_t>(width - full), '-') + "]";
}

}  // namespace dlpipe::cli
