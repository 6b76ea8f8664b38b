// Which class has which number, where classes of several listings are put together, or those of another dataset are
// taken. Labels follow by their names. Masks of files don't: their pixels stay as they are, so what would give their classes
// other numbers is refused.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

/// A whole number, also one that is written with a fraction or an exponent: 7, 7.0, 7e0.
bool parse_whole(std::string_view text, int64_t* number);
/// Writes those of the names as whole numbers that are some with a fraction, as programs that keep tables in floats write classes: 7
/// for 7.0. Only where all that aren't empty are whole numbers; else these are names as others.
void write_whole_numbers(std::span<std::string* const> names);

/// Every class of the listings once: those of listings with an order of their own (has_class_order) first, as they follow each
/// other there; behind them the others, sorted.
std::vector<std::string> merged_classes(std::span<const SourceListing* const> listings);

/// The numbers that classes have in one table, for any number of listings.
class ClassNumbers {
 public:
  /// `classes` must outlive it.
  explicit ClassNumbers(const std::vector<std::string>& classes);
  /// Gives each label of the entries and of their fields the number that its class has in the table, where all are. The listing's
  /// own classes are none of its any more. kMisuse where masks hold the numbers that classes had (MaskNumbers::kClasses); `name` is
  /// what the listing is of, and `instead` what to do.
  Status give_to(std::string_view name, std::string_view instead, SourceListing& listing) const;

 private:
  std::unordered_map<std::string_view, int64_t> number_of_;
};

}  // namespace dlpipe::data
