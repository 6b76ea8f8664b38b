#include "run/ingest/draw.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"

namespace dlpipe::ingest {

namespace {

/// Puts samples or units into the order of their draws; without a seed, of their names.
void sort_by_draw(std::vector<size_t>& samples, std::span<const std::string_view> names,
                  std::optional<uint64_t> seed) {
  std::vector<std::tuple<uint64_t, std::string_view, size_t>> draws;
  draws.reserve(samples.size());
  for (const size_t i : samples)
    draws.emplace_back(seed ? data::checksum64(std::as_bytes(std::span(names[i])), *seed) : 0, names[i], i);
  std::sort(draws.begin(), draws.end());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = std::get<2>(draws[i]);
}

/// The units that go to one split as a whole: samples, or groups. Columns of a table.
struct Units {
  std::vector<std::string_view> names;  // the first of its samples' names
  std::vector<int64_t> classes;         // the most frequent class
  std::vector<size_t> sizes;            // in samples
  std::vector<size_t> of_sample;        // the unit, by the sample's place in `taken`
};

Units units_of(const SampleDraw& draw, const std::vector<size_t>& taken) {
  Units units;
  std::unordered_map<int64_t, size_t> of_group;
  std::map<std::pair<size_t, int64_t>, size_t> counts;  // of groups, by class
  for (const size_t i : taken) {
    const int64_t group = draw.groups.empty() ? -1 : draw.groups[i];
    size_t unit = units.names.size();
    if (group >= 0) {
      unit = of_group.emplace(group, unit).first->second;
      ++counts[{unit, draw.classes[i]}];
    }
    units.of_sample.push_back(unit);
    if (unit == units.names.size()) {
      units.names.push_back(draw.names[i]);
      units.classes.push_back(draw.classes[i]);
      units.sizes.push_back(1);
    } else {
      units.names[unit] = std::min(units.names[unit], draw.names[i]);
      ++units.sizes[unit];
    }
  }
  std::unordered_map<size_t, size_t> most;
  for (const auto& [of, count] : counts) {  // the smallest of equally frequent classes
    if (count <= most[of.first]) continue;
    most[of.first] = count;
    units.classes[of.first] = of.second;
  }
  return units;
}

std::vector<size_t> within_limit(const SampleDraw& draw) {
  std::vector<size_t> taken(draw.names.size());
  std::iota(taken.begin(), taken.end(), size_t{0});
  if (draw.limit < 0 || static_cast<size_t>(draw.limit) >= taken.size()) return taken;
  constexpr uint64_t kLimitDraw = 0x6c696d6974;  // another draw than the split's
  sort_by_draw(taken, draw.names, draw.seed ^ kLimitDraw);
  taken.resize(static_cast<size_t>(draw.limit));
  return taken;
}

/// The end of each split's part in a class of `samples` samples.
std::vector<size_t> ends_in_class(const std::vector<double>& split, size_t samples) {
  std::vector<size_t> ends;
  double before = 0;
  for (const double fraction : split) {
    before += fraction;
    ends.push_back(static_cast<size_t>(std::llround(before * static_cast<double>(samples))));
  }
  ends.back() = samples;
  return ends;
}

size_t count_in_class(const std::vector<double>& split, size_t s, size_t samples) {
  const std::vector<size_t> ends = ends_in_class(split, samples);
  return ends[s] - (s > 0 ? ends[s - 1] : 0);
}

/// The fractions nearest to `split`, in hundredths, that give each split a sample of a class of `samples` samples; "" if none
/// do.
std::string parts_that_would_do(const std::vector<double>& split, size_t samples) {
  constexpr double kHundred = 100;
  if (samples < split.size()) return "";
  std::vector<double> counts;
  counts.reserve(split.size());
  for (const double fraction : split)
    counts.push_back(std::max(1.0, std::round(fraction * static_cast<double>(samples))));
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  *std::max_element(counts.begin(), counts.end()) -= total - static_cast<double>(samples);
  std::vector<double> fractions;
  std::string text;
  double rest = kHundred;
  for (size_t s = 0; s < counts.size(); ++s) {
    const bool last = s + 1 == counts.size();
    const double hundredths = last ? rest : std::round(kHundred * counts[s] / static_cast<double>(samples));
    rest -= hundredths;
    fractions.push_back(hundredths / kHundred);
    text += concat(s > 0 ? "," : "", fractions.back());
  }
  for (size_t s = 0; s < split.size(); ++s) {
    if (fractions[s] <= 0 || count_in_class(fractions, s, samples) == 0) return "";
  }
  return text;
}

/// Why split `s` gets no sample: each class is too small.
std::string too_small_classes(const std::vector<double>& split, size_t s, size_t largest) {
  constexpr size_t kFar = 100'000;  // no longer useful advice
  size_t enough = largest + 1;
  while (enough < kFar && count_in_class(split, s, enough) == 0) ++enough;
  const std::string parts = parts_that_would_do(split, largest);
  return concat("too few samples for --split: each class is divided separately, and '", kDrawnSplits[s],
                "' would get none of the ", largest, " in the largest class",
                enough < kFar ? concat(" (it would get one of ", enough, ")") : "",
                parts.empty() ? "; add some or" : concat("; give --split ", parts, ", add some, or"),
                " leave out --split");
}

/// Divides units in this order at the fractions of `split`, as nearly as whole units allow.
void divide(const std::vector<double>& split, const Units& units, const std::vector<size_t>& order,
            std::vector<size_t>& split_of) {
  size_t samples = 0, before = 0, s = 0;
  for (const size_t unit : order) samples += units.sizes[unit];
  const std::vector<size_t> ends = ends_in_class(split, samples);
  for (const size_t unit : order) {
    while (2 * before + units.sizes[unit] > 2 * ends[s]) ++s;  // the split that contains its middle
    split_of[unit] = s;
    before += units.sizes[unit];
  }
}

using ClassUnits =
    std::map<int64_t, std::vector<size_t>>;  // the units of each class, in the order of their draws

/// The same for all classes together, if each has too few units: the last ones of each class come last.
std::vector<size_t> divide_together(const std::vector<double>& split, const Units& units,
                                    const ClassUnits& by_class, std::vector<size_t>& split_of) {
  std::vector<size_t> order;
  std::vector<double> place(units.names.size());  // in its class, as a fraction
  for (const auto& [label, own] : by_class) {
    for (size_t i = 0; i < own.size(); ++i)
      place[own[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(own.size());
    order.insert(order.end(), own.begin(), own.end());
  }
  std::ranges::stable_sort(order, {}, [&](size_t unit) { return place[unit]; });
  divide(split, units, order, split_of);
  return order;
}

/// Moves units to the split `empty`, one at least, while that brings the shares nearer to `split`. Does nothing if each other
/// split has one unit at most. Among equally good ones, the last of `order` moves.
void fill(size_t empty, const std::vector<double>& split, const Units& units,
          const std::vector<size_t>& order, std::vector<size_t>& split_of) {
  std::vector<double> above(split.size());  // samples above the share
  std::vector<size_t> count(split.size());
  for (const size_t unit : order) {
    const auto size = static_cast<double>(units.sizes[unit]);
    above[split_of[unit]] += size;
    ++count[split_of[unit]];
    for (size_t s = 0; s < split.size(); ++s) above[s] -= split[s] * size;
  }
  while (true) {
    std::optional<size_t> best;
    double best_gain = 0;
    for (const size_t unit : order) {
      const size_t from = split_of[unit];
      const auto size = static_cast<double>(units.sizes[unit]);
      const double gain = std::abs(above[from]) + std::abs(above[empty]) - std::abs(above[from] - size) -
                          std::abs(above[empty] + size);
      if (from == empty || count[from] < 2 || (best && gain < best_gain)) continue;
      best = unit;
      best_gain = gain;
    }
    if (!best || (count[empty] > 0 && best_gain <= 1e-6)) return;
    const size_t from = std::exchange(split_of[*best], empty);
    const auto size = static_cast<double>(units.sizes[*best]);
    above[from] -= size;
    above[empty] += size;
    --count[from];
    ++count[empty];
  }
}

/// The first split without a unit; nullopt if each has one.
std::optional<size_t> first_empty(size_t splits, const std::vector<size_t>& split_of) {
  for (size_t s = 0; s < splits; ++s)
    if (std::ranges::find(split_of, s) == split_of.end()) return s;
  return std::nullopt;
}

}  // namespace

Status check_limit(int64_t limit) {
  if (limit == 0 || limit < -1) return misuse("ingest", "--limit ", limit, "; use 1 or more");
  return {};
}

Result<std::vector<std::optional<size_t>>> draw_samples(const SampleDraw& draw) {
  std::vector<std::optional<size_t>> drawn(draw.names.size());
  const std::vector<size_t> taken = within_limit(draw);
  if (draw.split.empty()) {
    for (const size_t i : taken) drawn[i] = 0;
    return drawn;
  }
  const Units units = units_of(draw, taken);
  ClassUnits by_class;
  for (size_t unit = 0; unit < units.names.size(); ++unit) by_class[units.classes[unit]].push_back(unit);
  std::vector<size_t> split_of(units.names.size());
  size_t largest = 0;
  for (auto& [label, own] : by_class) {
    sort_by_draw(own, units.names, draw.in_sequence ? std::nullopt : std::optional(draw.seed));
    divide(draw.split, units, own, split_of);
    size_t samples = 0;
    for (const size_t unit : own) samples += units.sizes[unit];
    largest = std::max(largest, samples);
  }
  const size_t splits = draw.split.size();
  if (!draw.groups.empty() && units.names.size() >= splits && first_empty(splits, split_of)) {
    const std::vector<size_t> order = divide_together(draw.split, units, by_class, split_of);
    while (const auto empty = first_empty(splits, split_of)) fill(*empty, draw.split, units, order, split_of);
  }
  if (const auto empty = first_empty(splits, split_of)) {
    if (by_class.size() > 1 && draw.groups.empty())
      return misuse("ingest", too_small_classes(draw.split, *empty, largest));
    const size_t groups = units.names.size();
    if (!draw.groups.empty())
      return misuse("ingest", "too few groups for --split: there ",
                    groups == 1 ? "is 1" : concat("are ", groups), " for ", splits, " splits; add some",
                    groups > 1 ? concat(", give --folds ", groups) : "", " or leave out --split");
    return misuse("ingest", "too few samples for --split: '", kDrawnSplits[*empty],
                  "' would get none; add some or leave out --split");
  }
  for (size_t i = 0; i < taken.size(); ++i) drawn[taken[i]] = split_of[units.of_sample[i]];
  return drawn;
}

Result<std::vector<size_t>> draw_folds(const SampleDraw& draw, size_t folds) {
  std::vector<size_t> taken(draw.names.size());
  std::iota(taken.begin(), taken.end(), size_t{0});
  const Units units = units_of(draw, taken);
  std::vector<size_t> order(units.names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  sort_by_draw(order, units.names, draw.seed);
  // Large units come first, because smaller ones can still balance them.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return units.sizes[a] > units.sizes[b]; });
  std::map<int64_t, std::vector<size_t>> of_class;
  std::vector<size_t> all(folds), fold_of(units.names.size());
  for (const size_t unit : order) {
    std::vector<size_t>& own = of_class[units.classes[unit]];
    own.resize(folds);
    size_t best = 0;
    for (size_t f = 1; f < folds; ++f)
      if (std::pair(own[f], all[f]) < std::pair(own[best], all[best])) best = f;
    own[best] += units.sizes[unit];
    all[best] += units.sizes[unit];
    fold_of[unit] = best;
  }
  const auto empty = std::ranges::find(all, size_t{0});
  if (empty != all.end())
    return misuse("ingest", "--folds ", folds, " is more than there are ",
                  draw.groups.empty() ? "samples" : "groups", "; give fewer folds");
  std::vector<size_t> drawn(taken.size());
  for (const size_t i : taken) drawn[i] = fold_of[units.of_sample[i]];
  return drawn;
}

}  // namespace dlpipe::ingest
