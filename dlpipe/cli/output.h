// Where the program's words go. What a command was asked for goes to stdout, as text or as JSON, so that
// `dlpipe inspect DATA | less` and `> file` work. Progress, notes, warnings and errors go to stderr. Both are
// made printable (base/printable.h), as names from data may hold control characters. Main thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlpipe::cli {

/// Text that the command was asked for (stdout): a table, a report, a JSON document. Adds the newline if
/// there is none. As write_stdout.
bool print_answer(std::string_view text);
/// A line about the work (stderr): progress, a warning, an error. Adds the newline if there is none.
void print_note(std::string_view text);
/// Bytes of an answer (stdout), flushed. False when nobody reads any more (`| head`): the rest is work for
/// nothing, and no error. Throws Error where it can't be written (disk full, closed).
bool write_stdout(std::string_view text);

/// True when stderr is a terminal: progress may overwrite its line. Otherwise plain lines are printed.
bool stderr_is_terminal();
/// As much of `line` (ASCII) as one line of the terminal on stderr holds: what wraps can't be overwritten.
std::string fit_terminal(const std::string& line);

/// Columns padded to their widest cell. Numbers (cells that begin with a digit, '-' or '+') are set to the
/// right. The first row is the head; a rule is drawn under it.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace dlpipe::cli
