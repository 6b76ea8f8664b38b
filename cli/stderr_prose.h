// Sentences on stderr, as output.h and log_sink.h print them. Main thread only.
#pragma once

#include <cstddef>
#include <string>

namespace dlpipe::cli {

/// Columns of the terminal that stderr is; 0: it is none, or doesn't say.
size_t stderr_width();
/// As wrap (output.h), with commands whole, however long: in backticks, or behind ": dlpipe".
std::string wrap_sentences(const std::string& line, size_t width, size_t indent);
/// On a terminal a line that is too long for it breaks between words and goes on under two blanks, commands whole; elsewhere it stays
/// one line, for grep.
std::string stderr_prose(const std::string& text);

}  // namespace dlpipe::cli
