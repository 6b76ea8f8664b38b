// The values of an expression's parameters: numbers, sizes, ranges and lists as people write them. Pure
// functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/base/error.h"

namespace dlpipe::augment {

/// "0.5", "3/4": false unless all of `text` is one finite number.
bool parse_number(std::string_view text, double* value);
/// "224" (single: height = width) or "192x256" (height x width); sizes lie in 1..kMaxSize.
bool parse_size(std::string_view text, ImageSize* size, bool* is_single);
inline constexpr int kMaxSize = 1 << 16;
/// "lo..hi" with lo <= hi.
bool parse_range(std::string_view text, std::vector<double>* bounds);
/// "a:b:c", or one number.
bool parse_list(std::string_view text, std::vector<double>* values);

/// "0..1", "at least 0" or nothing: what a parameter's numbers lie in, for people.
std::string bounds_text(const OpParam& param);

/// "0.6..1.4": a range as an expression writes it, the same numbers when it is read again.
std::string range_text(const Drawn& range);

/// `text` as a value of `param`'s kind in its one canonical spelling, or an error that says what the kind
/// looks like ("size must be a whole number, got '22.5'"), which bounds it has or which words it knows.
Result<std::string> canonical_value(const OpParam& param, std::string_view text);

}  // namespace dlpipe::augment
