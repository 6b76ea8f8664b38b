#include "base/text.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/messages.h"

namespace dlpipe {

template <class... Format>
static void append_chars(std::string& out, Format... value_and_form) {
  std::array<char, 32> buffer;
  out.append(buffer.data(),
             std::to_chars(buffer.data(), buffer.data() + buffer.size(), value_and_form...).ptr);
}
void append_text(std::string& out, int64_t value) {
  append_chars(out, value);
}
void append_text(std::string& out, uint64_t value) {
  append_chars(out, value);
}
void append_text(std::string& out, double value) {
  constexpr int kDigits = 6;
  append_chars(out, value, std::chars_format::general, kDigits);
}

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // without a sign
  std::array<char, 400> buffer;         // the largest double has 309 digits before its point
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string("?");
}

std::string shortest_decimal(double value) {
  std::string text;
  append_chars(text, value);
  return text;
}

std::string human_bytes(uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return concat(unit == 0 ? concat(bytes) : fixed(value, 1), " ", kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  auto two = [](int64_t v) { return (v < 10 ? "0" : "") + std::to_string(v); };
  if (whole == 0 && seconds > 0) return "<1s";
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return concat(whole / 60, "m", two(whole % 60), "s");
  return concat(whole / 3600, "h", two(whole / 60 % 60), "m");
}

std::string human_count(int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (int position = static_cast<int>(digits.size()) - 3; position > 0; position -= 3)
    digits.insert(position, ",");
  return count < 0 ? "-" + digits : digits;
}

std::string hex64(uint64_t value) {
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    pieces.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

bool matches_glob(const std::string& text, const std::string& glob) {
  return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Number of inserted, omitted, replaced and swapped letters.
static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

static std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const size_t letters = name.size() - std::min(name.find_first_not_of('-'), name.size());
  const size_t limit = std::max<size_t>(1, letters / 3);
  const std::string small = in_small_letters(name);
  std::string best;
  std::pair<size_t, size_t> best_distance = {limit + 1, 0};  // ignoring case first, then as written
  for (const std::string& candidate : candidates) {
    const std::pair distance = {edit_distance(small, in_small_letters(candidate)),
                                edit_distance(name, candidate)};
    if (distance < best_distance && distance.first < std::max(name.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

/// "a, b, c"; only the first ones if there are very many.
static std::string listed(std::span<const std::string> names, std::string_view quote) {
  constexpr size_t kMany = 100, kFirst = 10, kMostBytes = 300;
  const size_t shown = names.size() > kMany ? kFirst : names.size();
  std::string text;
  for (size_t i = 0; i < shown; ++i)
    text += concat(i > 0 ? ", " : "", quote, shortened(names[i], kMostBytes), quote);
  if (names.size() > shown)
    text += concat(" and ", human_count(static_cast<int64_t>(names.size() - shown)), " more");
  return text;
}

/// Whether `letters` are the initials of the words in `name`: "ce" of "cross_entropy".
static bool are_initials(std::string_view letters, std::string_view name) {
  for (const char letter : letters) {
    if (name.empty() || name.front() != letter) return false;
    name.remove_prefix(std::min(name.find('_'), name.size() - 1) + 1);
  }
  return letters.size() > 1 && name.empty();
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  constexpr size_t kBeginning = 3;  // number of letters that is specific enough
  std::vector<std::string> longer;
  for (const std::string& candidate : candidates) {
    if (are_initials(name, candidate) || (name.size() >= kBeginning && candidate.starts_with(name)))
      longer.push_back(candidate);
  }
  if (!longer.empty()) return concat("; did you mean ", listed(longer, "'"), "?");
  if (const std::string near = nearest_name(name, candidates); !near.empty()) {
    return concat("; did you mean '", near, "'?");
  }
  // A name that starts like a candidate but ends differently: "classification" for classify.
  size_t most = 4;  // letters
  std::string_view like;
  for (const std::string& candidate : candidates) {
    const size_t same = static_cast<size_t>(
        std::mismatch(name.begin(), name.end(), candidate.begin(), candidate.end()).first - name.begin());
    if (same <= most || same + 2 < candidate.size()) continue;
    most = same;
    like = candidate;
  }
  if (!like.empty()) return concat("; did you mean '", like, "'?");
  return concat("; known: ", listed(candidates, ""));
}

bool parse_int(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// As Python's float: with a leading plus, and infinity or 0 for what no double holds, which std::from_chars refuses.
bool parse_double(std::string_view text, double* value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (end != text.data() + text.size() || text.empty()) return false;
  if (error == std::errc::result_out_of_range) {
    const size_t exponent = text.find_first_of("eE");
    const bool is_small = exponent != std::string_view::npos
                              ? text.substr(exponent + 1).starts_with('-')
                              : text.find_first_of("123456789.") == text.find('.');
    *value = std::copysign(is_small ? 0 : HUGE_VAL, text[0] == '-' ? -1.0 : 1.0);
    return true;
  }
  return error == std::errc();
}

bool parse_bytes(std::string_view text, uint64_t* bytes) {
  text = trim(text);
  const size_t digits = text.find_first_not_of("0123456789.");
  double value = 0;
  if (!parse_double(text.substr(0, digits), &value)) return false;
  std::string_view unit = digits == std::string_view::npos ? std::string_view() : trim(text.substr(digits));
  if (unit.empty()) {  // 8 could mean 8 GiB: only 0 needs no unit
    *bytes = 0;
    return value == 0;
  }
  double scale = 1;
  const size_t power = std::string_view("KMGT").find(static_cast<char>(std::toupper(unit[0])));
  if (power != std::string_view::npos) {
    scale = std::pow(1024.0, static_cast<double>(power) + 1);
    unit.remove_prefix(1);
    if (!unit.empty() && (unit[0] == 'i')) unit.remove_prefix(1);
  }
  if (!unit.empty() && unit != "B" && unit != "b") return false;
  if (value * scale >= 1.8e19) return false;
  *bytes = static_cast<uint64_t>(value * scale);
  return true;
}

}  // namespace dlpipe
