// What arrays say of samples beside their pictures: classes, or numbers. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/arrays/npy_array.h"

namespace dlpipe::data::numpy {

/// What is known of each sample of a split.
struct Labels {
  std::vector<std::string> classes;           // one for each sample; empty: none
  std::vector<std::vector<int64_t>> several;  // classes of each
  std::vector<std::vector<float>> targets;    // numbers of each
};

/// kCorrupt where one is no class and no number that an f32 holds.
Result<Labels> labels_of(const NpyArray& array);
/// The texts of `array` where they can be names of classes, in the order of their numbers: [K], no one empty or twice. Else
/// empty.
Result<std::vector<std::string>> class_names_in(const NpyArray& array);
/// Whether the classes in `labels` are numbers below `count`; false where there are no classes.
bool are_below(const Labels& labels, size_t count);

}  // namespace dlpipe::data::numpy
