// The one line of progress on stderr: overwritten in place on a terminal, a plain line every few seconds
// elsewhere. Every command that takes long shows its progress with it. Main thread only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlpipe::cli {

/// Of a work on so many samples.
struct Progress {
  int64_t done = 0;
  int64_t total = 0;
  double samples_per_s = 0;  // 0: found from `done` and the line's age
  double remaining_s = -1;   // below 0: from the rate
  std::string more = {};     // what else there is to say
};

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text`. The caller sees to it that it doesn't come too often.
  void show(const std::string& text);
  /// Shows how far `what` ("ingest") is, as often as a reader wants it: not in the first second, then ten times
  /// per second on a terminal and every five seconds elsewhere, and when all is done.
  void show(std::string_view what, Progress progress);
  /// Moves on to a fresh line, so that other output can follow.
  void end();
  /// Takes the line away, so that other output can take its place.
  void clear();

 private:
  const bool is_terminal_;
  const int64_t begin_ns_;
  int64_t shown_ns_ = 0;
  bool is_open_ = false;
};

/// "[######------] 640/5,000  350 samples/s  eta 12s", or without a bar "ingest 640/5,000 ...".
std::string progress_text(std::string_view what, const Progress& progress, bool with_bar);

}  // namespace dlpipe::cli
