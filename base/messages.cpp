#include "base/messages.h"
#include "dlpipe/log.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>

#include "base/text.h"

namespace dlpipe {

// ---- text from data

size_t utf8_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const size_t count = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (count == 0 || at + count > text.size()) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : count;
}

void append_utf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>((0xf0u << (3 - more) & 0xff) | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t count = utf8_bytes(text, 0);
    if (count == 0) return false;
    text.remove_prefix(count);
  }
  return true;
}

// Of a character of up to three bytes; 0 for longer ones, all of which are harmless.
static uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  switch (character.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3:
      return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return 0;
  }
}

static bool is_harmful(std::string_view character) {
  if (character.size() > 3) return false;
  const uint32_t code = code_point(character);
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = code == 0x061c || code == 0x200e || code == 0x200f ||
                         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  const bool mark = code == 0xfeff;  // a byte order mark, which is invisible in a name
  return control || separator || direction || mark;
}

static std::string escaped(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\r") return "\\r";
  if (character == "\t") return "\\t";
  return "\\u" + hex64(code_point(character)).substr(12);  // as JSON writes it: JSON stays JSON
}

static std::string printable_but(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t count = utf8_bytes(text, 0);
    const std::string_view character = text.substr(0, std::max<size_t>(count, 1));
    if (count == 0) {
      out += "\\x" + hex64(static_cast<unsigned char>(text[0])).substr(14);
    } else if (is_harmful(character) && kept.find(text[0]) == std::string_view::npos) {
      out += escaped(character);
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string printable(std::string_view text) {
  return printable_but(text, "");
}

std::string printable_lines(std::string_view text) {
  return printable_but(text, "\n\t");
}

/// Whether a byte continues a UTF-8 character that an earlier byte began.
static bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr size_t kMostContinuing = 3;  // bytes of one character; more are not UTF-8
  size_t begin = most - most / 3, end = text.size() - most / 3;
  for (size_t i = 0; i < kMostContinuing && begin > 0 && continues_character(text[begin]); ++i) --begin;
  for (size_t i = 0; i < kMostContinuing && end < text.size() && continues_character(text[end]); ++i) ++end;
  return concat(text.substr(0, begin), "... (", human_count(static_cast<int64_t>(end - begin)),
                " bytes left out) ...", text.substr(end));
}

std::string counted(int64_t count, std::string_view one, std::string_view several) {
  if (count == 1) return concat("1 ", one);
  return concat(human_count(count), " ", several.empty() ? concat(one, "s") : std::string(several));
}

std::string_view without_area(std::string_view message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

std::string short_name(std::string_view name) {
  constexpr size_t kMost = 300;  // more than a file system has for a name
  return printable(shortened(name, kMost));
}

std::string in_quotes(std::string_view name) {
  return concat("'", short_name(name), "'");
}

std::string quoted_names(std::span<const std::string> names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i)
    text += concat(i > 0 ? ", " : "", in_quotes(names[i]));
  if (names.size() > most) text += concat(" and ", names.size() - most, " more");
  return text;
}

static bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("/._-+=:,@%").find(c) != std::string_view::npos;
}

std::string shell_word(std::string_view text) {
  const bool is_option = text.starts_with('-') && text.size() > 1;
  return is_option ? shell_text(concat("./", text)) : shell_text(text);
}

std::string shell_text(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  if (printable(text) != text) {
    std::string quoted = "$'";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      quoted += byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\' ? "\\x" + hex64(byte).substr(14)
                                                                      : std::string(1, c);
    }
    return quoted + "'";
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// ---- the log

namespace {
void log_to_stderr(LogLevel level, std::string_view message) {
  if (level < LogLevel::kWarning) return;
  std::fprintf(stderr, "%s: %s\n", level == LogLevel::kWarning ? "warning" : "error",
               printable_lines(message).c_str());
}
std::atomic<LogFunction> log_function{log_to_stderr};
}  // namespace

LogFunction set_log_function(LogFunction function) {
  return log_function.exchange(function != nullptr ? function : log_to_stderr);
}
void log(LogLevel level, std::string_view message) {
  log_function.load()(level, message);
}

}  // namespace dlpipe
