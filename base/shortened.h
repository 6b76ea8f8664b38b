// Text from data in messages: a name may be 30 MB long. Standard library only; pure.
#pragma once

#include <string>
#include <string_view>

namespace dlpipe {

/// `text` if it has at most `most` bytes; else its begin and its end, characters whole, and between them how many bytes were left
/// out. A little longer than `most`.
std::string shortened(std::string_view text, size_t most);

}  // namespace dlpipe
