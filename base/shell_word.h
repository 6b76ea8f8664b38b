// A path or another text from data as one word of a command that a message suggests, so that it can be copied into a
// shell. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlpipe {

/// `text` as it is where a shell takes it so, else in quotes: 'dir ü'. What would act on a terminal stands as in
/// printable.h, in quotes that bash, zsh and ksh read back to the same bytes: $'a\x0ab'.
std::string shell_word(std::string_view text);

}  // namespace dlpipe
