// The names of what a model tells apart, where its own file doesn't say them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlpipe::run {

/// `count` names from `from`, a text file with a name on each line, a dataset or a folder of splits. Where `from` is empty they are numbers, and
/// `notes` says so. kMisuse, naming `weights` and what in it counts its classes, where there are more or fewer; throws what
/// reading throws.
std::vector<std::string> class_names(const std::string& from, const std::string& weights,
                                     const std::string& counted_by, int64_t count,
                                     std::vector<std::string>& notes);

/// "0", "1", ...: what classes without names are called.
std::vector<std::string> numbered_classes(int64_t count);

}  // namespace dlpipe::run
