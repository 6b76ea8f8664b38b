// The values of an expression's parameters: numbers, sizes, ranges and lists as people write them. Pure
// functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment/op.h"

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

/// `text` as a value of `param`'s kind in its one canonical spelling, or an error that says what the kind
/// looks like ("size must be a whole number, got '22.5'").
Result<std::string> canonical_value(const OpParam& param, std::string_view text);

}  // namespace dlpipe::augment
