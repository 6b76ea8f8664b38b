#include "dlpipe/base/base64.h"

#include <cstdint>

namespace dlpipe {

static constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += 4) {
    uint32_t bits = 0;
    for (const char character : text.substr(at, 4)) {
      const size_t digit = kDigits.find(character);
      bits = bits << 6 | (digit == std::string_view::npos ? 0 : static_cast<uint32_t>(digit));
    }
    for (size_t i = 0; i < 3; ++i) bytes += static_cast<char>(bits >> (16 - 8 * i) & 255);
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(bytes.size() - padding);
  if (to_base64(bytes) != text) return std::nullopt;  // another character, or bits behind the last byte
  return bytes;
}

}  // namespace dlpipe
