// What --limit and --split do to samples: chance by the seed, the sample's name and nothing else, so that a sample keeps its
// place when others come or go.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::ingest {

/// Splits by the number of their fraction.
inline constexpr std::array<const char*, 3> kDrawnSplits = {"train", "val", "test"};

struct SampleDraw {
  std::span<const std::string_view> names;
  std::span<const int64_t> classes;  // one for each name; -1: none, which is a class of its own here
  int64_t limit = -1;                // at most so many; -1: all
  std::vector<double> split = {};    // fractions, as parse_split answers them; empty: no splits
  uint64_t seed = 0;
  bool in_sequence = false;  // splits are cut in the order of the names, as texts are
};

/// For each sample the number of its split, 0 where there are none; nothing for those that the limit leaves out. Each class
/// is cut at the same fractions. kMisuse where a split would be empty.
Result<std::vector<std::optional<size_t>>> draw_samples(const SampleDraw& draw);

/// kMisuse for a --limit that leaves nothing.
Status check_limit(int64_t limit);

}  // namespace dlpipe::ingest
