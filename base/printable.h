// Names and other text from data, made fit to be printed: what would act on a terminal is escaped. Standard
// library only; all functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dlpipe {

/// The bytes of the UTF-8 character (RFC 3629) that begins at `at`; 0 where none does.
size_t utf8_bytes(std::string_view text, size_t at);
bool is_utf8(std::string_view text);
/// Appends a code point of at most 0x10ffff.
void append_utf8(uint32_t code, std::string& text);
/// A name or other text from data, as one line that is safe to print: control characters, characters that
/// turn the direction of writing and bytes that are no UTF-8 stand as \n, \u001b, \u202e or \xff.
std::string printable(std::string_view text);
/// The same for a text of several lines, whose newlines stay.
std::string printable_lines(std::string_view text);
/// An error's message without its "[area] ", to stand inside of another one.
std::string_view without_area(std::string_view message);
/// A name from data, printable; of a very long one its begin and end.
std::string short_name(std::string_view name);
/// The same in quotes: 'a'.
std::string in_quotes(std::string_view name);
/// Names from data in quotes, printable: "'a', 'b' and 3 more".
std::string quoted_names(std::span<const std::string> names, size_t most = 10);

}  // namespace dlpipe
