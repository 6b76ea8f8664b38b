// Which class has which number, where classes of several listings are put together, or those of another dataset are
// taken. Labels follow by their names. Masks of files don't: their pixels stay as they are, so what would give their classes
// other numbers is refused.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

/// Every class of the listings once: those of listings with an order of their own (has_class_order) first, as they follow each
/// other there; behind them the others, sorted.
std::vector<std::string> merged_classes(std::span<const SourceListing* const> listings);

/// Gives each label of the entries and of their fields the number that its class has in `classes`, where all are, and
/// takes these as the listing's. kMisuse where masks hold the numbers that classes had (MaskNumbers::kClasses); `name` is what the listing is of,
/// and `instead` what to do.
Status take_class_numbers(std::string_view name, const std::vector<std::string>& classes,
                          std::string_view instead, SourceListing& listing);

}  // namespace dlpipe::data
