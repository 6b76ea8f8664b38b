// The values of an op's parameters as users write them: numbers, sizes, ranges and lists. Pure functions. (OpParam and
// OpArguments: dlpipe/augment_op.h.)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment_op.h"
#include "dlpipe/error.h"

namespace dlpipe::augment {

/// "0.5", "3/4": false unless all of `text` is one finite number.
bool parse_number(std::string_view text, double* value);
/// "224" (single: height = width) or "192x256" (height x width); sizes are in 1..kMaxSize.
bool parse_size(std::string_view text, ImageSize* size, bool* is_single);
inline constexpr int kMaxSize = 1 << 16;
/// "lo..hi" with lo <= hi.
bool parse_range(std::string_view text, std::vector<double>* bounds);
/// "a:b:c", or one number.
bool parse_list(std::string_view text, std::vector<double>* values);

/// "0..1", "at least 0" or "": the bounds of a parameter's numbers, for messages.
std::string bounds_text(const OpParam& param);

/// "0.6..1.4": a range in expression syntax, which reads back as the same numbers.
std::string range_text(const Drawn& range);

/// `text` as a value of `param`'s kind in its canonical spelling, or an error that describes the kind ("size must be a whole
/// number, got '22.5'"), its bounds or its words.
Result<std::string> canonical_value(const OpParam& param, std::string_view text);

}  // namespace dlpipe::augment
