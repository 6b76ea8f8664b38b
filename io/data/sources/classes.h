// The classes of listings: their numbers when several listings, or a listing and another dataset, are combined; and files with
// a class per line. Labels are matched by class name. Masks in files can't be: their pixels are unchanged, so anything that
// would renumber their classes is rejected. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::data {

/// Parses a whole number, also one written with a fraction or an exponent: 7, 7.0, 7e0.
bool parse_whole(std::string_view text, int64_t* number);
/// Rewrites names that are whole numbers with a fraction, such as 7.0, as 7: programs that store tables in floats write classes
/// like this. Only if all non-empty names are whole numbers; otherwise they are ordinary names.
void write_whole_numbers(std::span<std::string* const> names);

/// The most bytes of a class's name, in every source. Descriptions of ImageNet's classes have at most 130; a longer text is a
/// caption or a mistake, and would be in a dataset's metadata and messages.
inline constexpr size_t kMostClassNameBytes = 1024;
/// kUnsupported names the first class that is longer and one of its entries; `source` is for the message.
Status check_class_names(const SourceListing& listing, const std::string& source);

/// All classes of the listings without duplicates: first those of listings with their own order (has_class_order), in that
/// order, then the others, sorted.
std::vector<std::string> merged_classes(std::span<const SourceListing* const> listings);

/// The numbers that classes have in one table, for any number of listings.
class ClassNumbers {
 public:
  /// `classes` must outlive it.
  explicit ClassNumbers(const std::vector<std::string>& classes);
  /// Renumbers each label of the entries and of their fields to its class's number in the table, which must contain all
  /// classes. Clears the listing's own classes. kMisuse if masks contain the old numbers (MaskNumbers::kClasses); `name` is the
  /// listing's source, and `instead` says what to do.
  Status give_to(std::string_view name, std::string_view instead, SourceListing& listing) const;

 private:
  std::unordered_map<std::string_view, int64_t> number_of_;
};

// A file with a class per line, for images in the order of their names (by bytes), such as ImageNet's validation images.

/// The classes of `images` images, from the lines of options.labels. kMisuse if the number of lines differs, or one is empty.
Result<std::vector<std::string>> read_labels(const SourceOptions& options, size_t images);
/// Sorts the entries by path, assigns each the class in its line of options.labels, and numbers the classes.
Status take_labels(const SourceOptions& options, SourceListing& listing);

/// The error for `images` of `source` without known classes.
Status no_classes(const std::string& source, int64_t images);

}  // namespace dlpipe::data
