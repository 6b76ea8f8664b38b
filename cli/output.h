// Where the program's words go. What a command was asked for goes to stdout, as text or as JSON, so that
// `dlpipe inspect DATA | less` and `> file` work. Progress, notes, warnings and errors go to stderr. Both are
// made printable (base/printable.h), as names from data may hold control characters. Main thread, where nothing else is said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/named_values.h"

namespace dlpipe::cli {

/// --color: whether messages have colours. kAuto: on a terminal, where NO_COLOR is unset or empty (https://no-color.org) and
/// TERM isn't dumb.
enum class Colors : uint8_t { kAuto, kAlways, kNever };
inline constexpr Named<Colors> kColorNames[] = {
    {"auto", Colors::kAuto}, {"always", Colors::kAlways}, {"never", Colors::kNever}};

/// What every command's --quiet and --color say.
struct OutputOptions {
  bool is_quiet = false;
  std::string color = "auto";  // one of kColorNames
};
/// From then on; before, notes are printed and colours are auto.
void set_output(const OutputOptions& options);

/// Text that the command was asked for (stdout): a table, a report, a JSON document. Adds the newline if
/// there is none. As write_stdout.
bool print_answer(std::string_view text);
/// What "-" stands for where a file is to be written.
inline constexpr const char* kStdout = "/dev/stdout";
bool is_stdout(std::string_view file);
/// What is said of a `file` that a command has written: an answer, or, where the file itself is stdout, a note.
void print_beside(std::string_view file, std::string_view text);
/// kMisuse where `option` names stdout as the file to write and --json is given, too.
Status check_stdout_is_free(std::string_view area, std::string_view option, std::string_view file, bool json);
/// A line about the work (stderr): progress, what is done by itself. --quiet leaves it out. Adds the newline.
void print_note(std::string_view text);
/// What the user should see even with --quiet (stderr): files left out, results to be careful with.
void print_warning(std::string_view text);
/// What warnings begin with where it isn't plain that they are some.
inline constexpr std::string_view kWarningHead = "warning: ";
/// Keeps a warning that was shown, without that head, for `warnings` of --json. Any thread, as given_warnings.
void keep_warning(std::string_view text);
/// All of the program so far: those of print_warning and of the log.
std::vector<std::string> given_warnings();
/// Why the program fails (stderr).
void print_error(std::string_view text);
/// Bytes of an answer (stdout), flushed. False when nobody reads any more (`| head`): the rest is work for
/// nothing, and no error. Throws Error where it can't be written (disk full, closed).
bool write_stdout(std::string_view text);

bool is_quiet();
/// True when stderr is a terminal: progress may overwrite its line. Otherwise plain lines are printed.
bool stderr_is_terminal();
/// As --color says.
bool stderr_has_color();
/// Columns for text on stdout: $COLUMNS, else the terminal's, else 80; at least 40 and at most 120, as longer
/// lines read badly.
size_t text_width();
/// `text` broken at blanks into lines of at most `width` columns, words whole; all but the first are
/// indented.
std::string wrap(const std::string& text, size_t width, size_t indent);
/// Sentences of an answer. On a terminal a line that is too long for it breaks between words, commands whole, and goes on under
/// `indent` blanks; elsewhere it stays one line, for grep.
std::string prose(const std::string& text, size_t indent = 0);
/// Whether `line` fits where stdout goes: a terminal's width; anything fits a file.
bool fits_stdout(std::string_view line);
/// The columns that `text` takes on a terminal: two for a wide character (CJK), none for a combining one.
size_t columns(std::string_view text);
/// As much of `line` as one line of the terminal on stderr holds: what wraps can't be overwritten.
std::string fit_terminal(const std::string& line);

/// For text that comes in pieces and begins or ends anywhere, even within a character: writes it to stdout as it
/// comes. On a terminal it is made printable, as a model's text may hold anything; into a pipe or a file the
/// bytes go as they are. Answers as write_stdout.
class StdoutText {
 public:
  bool write(std::string_view piece);
  /// What is left of a character, and a newline.
  bool finish();

 private:
  std::string held_;  // the first bytes of a character
};

/// Columns padded to their widest cell. Numbers (cells that begin with a digit, '-' or '+', and are no hexadecimal
/// ids) are set to the right. The first row is the head; a rule is drawn under it. Where the table is too wide for the terminal
/// on stdout, its columns stand closer.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace dlpipe::cli
