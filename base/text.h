// Text for messages, tables and files: numbers to text and back without a locale, splitting and trimming, the
// nearest name. All functions are pure. concat(), which builds error messages, is in dlpipe/error.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"  // concat

namespace dlpipe {

/// `value` with `digits` after the point ("1180.40").
std::string fixed(double value, int digits);
/// The shortest decimal that reads back as the same double.
std::string shortest_decimal(double value);
/// 1536 -> "1.5 KiB" (powers of 1024); below 1024 "17 B".
std::string human_bytes(uint64_t bytes);
/// 95.4 -> "1m35s"; under a minute "35s"; over an hour "2h05m"; too little to round to a second "<1s".
std::string human_seconds(double seconds);
/// 1234567 -> "1,234,567".
std::string human_count(int64_t count);
/// Lower-case hex of `value`, 16 digits.
std::string hex64(uint64_t value);

/// The pieces of `text` between `separator`s, including empty ones.
std::vector<std::string> split(std::string_view text, char separator);
/// Without leading and trailing blanks.
std::string_view trim(std::string_view text);
/// Whether all of `text` matches the shell pattern `glob`: *, ?, [a-z].
bool matches_glob(const std::string& text, const std::string& glob);

/// The candidate nearest to `name` by edit distance, with a swap of two letters as one edit; "" if none is
/// within a third of the name's letters (at least one edit).
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);
/// "; did you mean 'hflip'?" with all candidates that begin with `name` or have it as initials; else with the nearest
/// candidate; else with the one that shares the longest beginning with `name`. Otherwise "; known: a, b, c", with only the
/// first ones of many.
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

/// Whole-text numbers: false unless all of `text` is one number in range.
bool parse_int(std::string_view text, int64_t* value);
bool parse_double(std::string_view text, double* value);
/// "512B", "64K", "1GiB", "1.5GB" (all powers of 1024) in bytes. A number without a unit is refused, except 0.
bool parse_bytes(std::string_view text, uint64_t* bytes);

}  // namespace dlpipe
