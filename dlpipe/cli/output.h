// Where the program's words go: what a person reads to stderr, what a program reads to stdout, so that
// `dlpipe COMMAND --json > file` never mixes the two. Main thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlpipe::cli {

/// A report or a line for a person (stderr). Adds the newline if there is none.
void print_report(std::string_view text);
/// One JSON document or line for a program (stdout), with a newline after it, flushed. As write_stdout.
bool print_json(std::string_view text);
/// Bytes for a program (stdout), flushed. False when nobody reads any more (`| head`): the rest is work for
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
