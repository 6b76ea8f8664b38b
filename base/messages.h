// Messages to the user: text from data made safe to print, and words of suggested commands. The log is in dlpipe/log.h.
//
// Names of files, columns and classes may hold anything and be 30 MB long. What would act on a terminal is escaped, and the middle
// of a very long text is left out. All functions may be called from any thread; and all are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dlpipe {

/// The number of bytes of the UTF-8 character (RFC 3629) that begins at `at`; 0 if none does.
size_t utf8_bytes(std::string_view text, size_t at);
bool is_utf8(std::string_view text);
/// Appends a code point of at most 0x10ffff.
void append_utf8(uint32_t code, std::string& text);
/// A text from data as one line that is safe to print: control characters, characters that change the direction of
/// writing and bytes that aren't UTF-8 become \n, \u001b, \u202e or \xff.
std::string printable(std::string_view text);
/// The same for several lines: newlines and tabs stay.
std::string printable_lines(std::string_view text);
/// `text` if it has at most `most` bytes; else its begin and its end, with whole characters, and between them how many bytes
/// were left out. A little longer than `most`.
std::string shortened(std::string_view text, size_t most);
/// "1 image", "1,234 images"; `several` is for plurals that are not made with an s: counted(n, "class", "classes"). Words that follow
/// the count may be part of both: counted(n, "file was skipped", "files were skipped").
std::string counted(int64_t count, std::string_view one, std::string_view several = {});
/// An error's message without its "[area] ", for use inside another message.
std::string_view without_area(std::string_view message);
/// A name from data, printable, and shortened if it is very long.
std::string short_name(std::string_view name);
/// The same in quotes: 'a'.
std::string in_quotes(std::string_view name);
/// Names from data in quotes, printable: "'a', 'b' and 3 more".
std::string quoted_names(std::span<const std::string> names, size_t most = 10);

/// A path or other text from data as one word of a suggested command, which can be copied into a shell: unchanged if a shell
/// reads it so, else in quotes: 'dir ü'. What printable() escapes is escaped in quotes that bash, zsh and ksh read back to the
/// same bytes: $'a\x0ab'.
std::string shell_word(std::string_view text);
/// The same of what is not a path, such as an option or its value: shell_word() writes "-x" as "./-x", so that it is not taken for an option.
std::string shell_text(std::string_view text);

}  // namespace dlpipe
