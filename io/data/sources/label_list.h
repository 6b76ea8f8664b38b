// A file with one class per line, for pictures in the order of their names (bytes): how the validation pictures of
// ImageNet are labelled. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

/// The classes of `pictures` pictures, from the lines of options.labels. kMisuse where there are not as many lines, or
/// one is empty.
Result<std::vector<std::string>> read_labels(const SourceOptions& options, size_t pictures);
/// Sorts the entries by path, gives each the class of its line of options.labels and numbers the classes.
Status take_labels(const SourceOptions& options, SourceListing& listing);

/// The error for `pictures` of `source` that nothing gives a class.
Status no_classes(const std::string& source, int64_t pictures);

}  // namespace dlpipe::data
