#include "dlpipe/cli/progress_line.h"

#include <algorithm>
#include <cstdio>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"

namespace dlpipe::cli {

ProgressLine::ProgressLine() : is_terminal_(stderr_is_terminal()), begin_ns_(now_ns()) {}

ProgressLine::~ProgressLine() {
  end();
}

void ProgressLine::show(const std::string& text) {
  if (is_quiet()) return;
  if (!is_terminal_) return print_note(text);
  std::fprintf(stderr, "\r%s\x1b[K", fit_terminal(text).c_str());
  std::fflush(stderr);
  is_open_ = true;
}

void ProgressLine::show(std::string_view what, Progress progress) {
  constexpr int64_t kSoonNs = 1'000'000'000;  // what is over by then shows its end alone
  constexpr int64_t kTerminalNs = 100'000'000;
  constexpr int64_t kPlainNs = 5'000'000'000;
  const int64_t now = now_ns();
  const bool is_last = progress.done == progress.total;
  if (!is_last && now - begin_ns_ < kSoonNs) return;
  if (!is_last && now - shown_ns_ < (is_terminal_ ? kTerminalNs : kPlainNs)) return;
  shown_ns_ = now;
  if (progress.samples_per_s == 0)
    progress.samples_per_s =
        static_cast<double>(progress.done) / (static_cast<double>(now - begin_ns_) * 1e-9);
  if (progress.remaining_s < 0 && progress.samples_per_s > 0)
    progress.remaining_s = static_cast<double>(progress.total - progress.done) / progress.samples_per_s;
  show(progress_text(what, progress, is_terminal_));
}

void ProgressLine::end() {
  if (is_open_) std::fputc('\n', stderr);
  is_open_ = false;
}

void ProgressLine::clear() {
  if (is_open_) std::fputs("\r\x1b[K", stderr);
  is_open_ = false;
}

static std::string progress_bar(int64_t done, int64_t total) {
  constexpr int64_t kCells = 24;
  const int64_t full = total > 0 ? std::clamp<int64_t>(done * kCells / total, 0, kCells) : 0;
  return concat("[", std::string(static_cast<size_t>(full), '#'),
                std::string(static_cast<size_t>(kCells - full), '-'), "]");
}

std::string progress_text(std::string_view what, const Progress& p, bool with_bar) {
  constexpr double kManyDigits = 100;
  return concat(with_bar ? progress_bar(p.done, p.total) : std::string(what), " ", human_count(p.done), "/",
                human_count(p.total), "  ", fixed(p.samples_per_s, p.samples_per_s < kManyDigits ? 1 : 0),
                " samples/s", p.remaining_s < 0 ? "" : concat("  eta ", human_seconds(p.remaining_s)),
                p.more.empty() ? "" : "  ", p.more);
}

}  // namespace dlpipe::cli
