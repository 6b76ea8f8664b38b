// Small text helpers that every folder's messages and tables need. Standard library only; all functions are
// pure.
#pragma once

#include <cstdint>
#include <locale>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dlpipe {

/// Appends a value as concat() has it.
void append_text(std::string& out, int64_t value);
void append_text(std::string& out, uint64_t value);
void append_text(std::string& out, double value);  // six digits
template <class T>
void append_text(std::string& out, const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(value);
  } else if constexpr (std::is_same_v<T, char>) {
    out += value;
  } else if constexpr (std::is_floating_point_v<T>) {
    append_text(out, static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T> && sizeof(T) > 1) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    append_text(out, static_cast<Wide>(value));
  } else {  // what has an operator of its own
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream << value;
    out += stream.view();
  }
}

/// Everything one after another, as streams write it in the classic locale: concat("crop ", w, "x", h). What a program's global
/// locale says of digits doesn't matter: such texts are stored, hashed and sent.
template <class... Args>
std::string concat(const Args&... args) {
  std::string out;
  (append_text(out, args), ...);
  return out;
}

/// `value` with `digits` after the point ("1180.40").
std::string fixed(double value, int digits);
/// 1536 -> "1.5 KiB" (powers of 1024); below 1024 "17 B".
std::string human_bytes(uint64_t bytes);
/// 95.4 -> "1m35s"; under a minute "35s"; over an hour "2h05m"; too little to round to a second "<1s".
std::string human_seconds(double seconds);
/// 1234567 -> "1,234,567".
std::string human_count(int64_t count);
/// Lower-case hex of `value`, 16 digits.
std::string hex64(uint64_t value);

/// Pieces of `text` between `separator`s, empty ones kept.
std::vector<std::string> split(std::string_view text, char separator);
/// Without leading and trailing blanks.
std::string_view trim(std::string_view text);
/// Whether all of `text` fits the shell's pattern `glob`: *, ?, [a-z].
bool matches_glob(const std::string& text, const std::string& glob);

/// The candidate nearest to `name` by edit distance, in which two letters exchanged are one edit (at most a third of its letters, at
/// least one edit), or "".
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);
/// "; did you mean 'hflip'?" of the candidates that begin so, else of the nearest; else "; known: a, b, c", of many the first.
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

/// Whole-text numbers: false unless all of `text` is one number in range.
bool parse_int(std::string_view text, int64_t* value);
bool parse_double(std::string_view text, double* value);
/// "512B", "64K", "1GiB", "1.5GB" (all powers of 1024) in bytes. A number without a unit is refused, but 0.
bool parse_bytes(std::string_view text, uint64_t* bytes);

}  // namespace dlpipe
