// Base64 (RFC 4648, section 4): bytes as text, for JSON, which has no place for others. Standard library only; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlpipe {

std::string to_base64(std::string_view bytes);
/// nullopt where `text` isn't what to_base64 writes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dlpipe
