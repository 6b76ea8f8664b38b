// The random draw of --limit, --split and --folds. It depends only on the seed and on names. With --limit and --split, samples
// keep their order when others are added or removed, so that few of them change their split.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::ingest {

/// The names of splits, in the order of their fractions.
inline constexpr std::array<const char*, 3> kDrawnSplits = {"train", "val", "test"};

struct SampleDraw {
  std::span<const std::string_view> names;
  std::span<const int64_t> classes;  // one for each name; -1: none, treated as a separate class
  int64_t limit = -1;                // at most this many; -1: all
  std::vector<double> split = {};    // fractions, as returned by parse_split; empty: no splits
  uint64_t seed = 0;
  bool in_sequence = false;  // splits follow the order of the names, as for texts
  /// One for each name, or empty. Samples of a group stay together and count for its most frequent class. -1: no group.
  std::span<const int64_t> groups = {};
};

/// The number of each sample's split, 0 without splits; nullopt for samples that the limit leaves out. Each class is divided
/// at the same fractions, as nearly as whole groups allow; if that leaves a split without a group, all classes are divided
/// together. kMisuse if a split would be empty.
Result<std::vector<std::optional<size_t>>> draw_samples(const SampleDraw& draw);
/// The number of each sample's fold, from 0 to `folds` - 1. Each class, and all samples, are divided as evenly as whole groups
/// allow. `limit` and `split` are ignored. kMisuse if a fold would be empty.
Result<std::vector<size_t>> draw_folds(const SampleDraw& draw, size_t folds);

/// kMisuse for a --limit that leaves no samples.
Status check_limit(int64_t limit);

}  // namespace dlpipe::ingest
