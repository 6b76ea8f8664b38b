// One line of progress on stderr: overwritten in place on a terminal, a plain line every few seconds
// elsewhere. Main thread only.
#pragma once

#include <cstdint>
#include <string>

namespace dlpipe::cli {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text`; elsewhere than on a terminal only if the last line is some seconds old or this is the
  /// last.
  void show(const std::string& text, bool last = false);
  /// Moves on to a fresh line, so that other output can follow.
  void end();
  bool is_terminal() const { return is_terminal_; }

 private:
  bool is_terminal_;
  bool open_ = false;
  int64_t last_plain_ns_ = 0;
};

/// "[######------]", `width` cells between the brackets.
std::string progress_bar(int64_t done, int64_t total, int width);

}  // namespace dlpipe::cli
