// Everything that the program prints. A command's output goes to stdout, as text or as JSON, so that
// `dlpipe inspect DATA | less` and `> file` work. Progress, notes, warnings, errors and the log go to stderr. Both are made printable
// (dlpipe/log.h), because names from data may contain control characters. Main thread, unless stated otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "dlpipe/error.h"

namespace dlpipe::cli {

/// --color: whether messages have colours. kAuto: on a terminal, if NO_COLOR is unset or empty (https://no-color.org) and
/// TERM isn't dumb.
enum class Colors : uint8_t { kAuto, kAlways, kNever };
inline constexpr Named<Colors> kColorNames[] = {
    {"auto", Colors::kAuto}, {"always", Colors::kAlways}, {"never", Colors::kNever}};

/// The values of every command's --quiet and --color.
struct OutputOptions {
  bool is_quiet = false;
  std::string color = "auto";  // one of kColorNames
};
/// Takes effect from then on. Before, notes are printed and colours are auto.
void set_output(const OutputOptions& options);
/// Sends dlpipe/log.h to stderr, with the level in front. DLPIPE_LOG=debug|info|warning|error sets the lowest level printed (default
/// info; with --quiet warning). Call once, after set_output. The first of several processes warns about an invalid DLPIPE_LOG.
void install_log_sink(bool is_first_process);

/// A command's output (stdout): a table, a report, a JSON document. Adds a newline if
/// there is none. Returns and throws as write_stdout does.
bool print_answer(std::string_view text);
/// What "-" means as a file to write.
inline constexpr const char* kStdout = "/dev/stdout";
bool is_stdout(std::string_view file);
/// Prints text about a `file` that a command has written: on stdout, or on stderr if the file itself is stdout.
void print_beside(std::string_view file, std::string_view text);
/// kMisuse if `option` names stdout as the file to write and --json is given, too.
Status check_stdout_is_free(std::string_view area, std::string_view option, std::string_view file, bool json);
/// kMisuse if there is a file of that name. Streams and stdout are accepted.
Status check_is_new(std::string_view area, const std::string& file);
/// A line about the work (stderr): progress, what is done automatically. --quiet suppresses it. Adds the newline.
void print_note(std::string_view text);
/// A line that the user should see even with --quiet (stderr): files that were skipped, doubtful results.
void print_warning(std::string_view text);
/// Begins warnings that would not be recognised as such otherwise.
inline constexpr std::string_view kWarningHead = "warning: ";
/// All warnings of the program so far, without that head: those of print_warning and of the log. Any thread.
std::vector<std::string> given_warnings();
/// The reason why the program fails (stderr).
void print_error(std::string_view text);
/// Writes bytes of a command's output (stdout) and flushes. Returns false if the reader has closed the pipe (`| head`), which is not an
/// error: the caller need not continue. Throws Error if it can't be written (disk full, closed).
bool write_stdout(std::string_view text);

bool is_quiet();
/// Whether stderr is a terminal: progress may overwrite its line. Otherwise plain lines are printed.
bool stderr_is_terminal();
/// Columns for text on stdout: $COLUMNS, else the terminal's, else 80; at least 40 and at most 120, because longer
/// lines are hard to read.
size_t text_width();
/// `text` wrapped between words into lines of at most `width` columns; all but the first are
/// indented.
std::string wrap(const std::string& text, size_t width, size_t indent);
/// Sentences of an output. On a terminal, long lines are wrapped between words, without breaking commands, and continue after
/// `indent` blanks. Elsewhere a line stays one line, for grep.
std::string prose(const std::string& text, size_t indent = 0);
/// Whether `line` fits into the terminal on stdout. Anything fits into a file.
bool fits_stdout(std::string_view line);
/// The width of `text` on a terminal: two columns for a wide character (CJK), none for a combining one.
size_t columns(std::string_view text);
/// `line`, truncated to one line of the terminal on stderr, because a wrapped line can't be overwritten.
std::string fit_terminal(const std::string& line);

/// Writes text that arrives in pieces, which may begin or end within a character, to stdout as it
/// arrives. On a terminal it is made printable, because a model's text may contain anything; into a pipe or a file the
/// bytes are written unchanged. Returns and throws as write_stdout does.
class StdoutText {
 public:
  bool write(std::string_view piece);
  /// Writes the rest of a character, and a newline.
  bool finish();

 private:
  std::string held_;  // the first bytes of a character
};

/// Pads columns to their widest cell. Numbers (cells that begin with a digit, '-' or '+' and are not hexadecimal
/// ids) are right-aligned. The first row is the head, with a rule below it. If the table is too wide for the terminal
/// on stdout, the gaps between its columns are smaller.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

/// The progress of work on a number of samples.
struct Progress {
  int64_t done = 0;
  int64_t total = 0;
  double samples_per_s = 0;  // 0: computed from `done` and the line's age
  double remaining_s = -1;   // below 0: computed from the rate
  std::string more = {};     // appended to the line
};

/// The line of progress on stderr: overwritten in place on a terminal, a plain line every few seconds
/// elsewhere. Every long command shows its progress with it.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text`. The caller limits how often.
  void show(const std::string& text);
  /// Shows the progress of `what` ("ingest"), and limits how often: not in the first second, then ten times
  /// per second on a terminal and every five seconds elsewhere, and at the end.
  void show(std::string_view what, Progress progress);
  /// Begins a new line, so that other output can follow.
  void end();
  /// Erases the line, so that other output can take its place.
  void clear();

 private:
  const bool is_terminal_;
  const int64_t begin_ns_;
  int64_t shown_ns_ = 0;
  bool is_open_ = false;
};

}  // namespace dlpipe::cli
