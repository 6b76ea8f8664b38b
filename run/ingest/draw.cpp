#include "dlpipe/run/ingest/draw.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::ingest {

namespace {

/// Puts samples into the order of their draws; without a seed, of their names.
void sort_by_draw(std::vector<size_t>& samples, std::span<const std::string_view> names,
                  std::optional<uint64_t> seed) {
  std::vector<std::tuple<uint64_t, std::string_view, size_t>> draws;
  draws.reserve(samples.size());
  for (const size_t i : samples)
    draws.emplace_back(seed ? data::checksum64(std::as_bytes(std::span(names[i])), *seed) : 0, names[i], i);
  std::sort(draws.begin(), draws.end());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = std::get<2>(draws[i]);
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

/// Where the part of each split ends in a class of so many samples.
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

/// The fractions, in hundredths, nearest to `split` that give each split a sample of a class of so many; "" where there are none.
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

/// Why a split gets no sample, where there are classes: each of them is too small.
std::string too_small_classes(const std::vector<double>& split, size_t s, size_t largest) {
  constexpr size_t kFar = 100'000;  // no help to anybody
  size_t enough = largest + 1;
  while (enough < kFar && count_in_class(split, s, enough) == 0) ++enough;
  const std::string parts = parts_that_would_do(split, largest);
  return concat("too few samples for --split: each class is divided by itself, and '", kDrawnSplits[s],
                "' would get none of the ", largest, " that the largest has",
                enough < kFar ? concat(" (of ", enough, " it would get one)") : "",
                parts.empty() ? "; add some or" : concat("; give --split ", parts, ", add some, or"),
                " leave out --split");
}

}  // namespace

Status check_limit(int64_t limit) {
  if (limit == 0 || limit < -1) return misuse("ingest", "--limit ", limit, "; give at least 1");
  return {};
}

Result<std::vector<std::optional<size_t>>> draw_samples(const SampleDraw& draw) {
  std::vector<std::optional<size_t>> drawn(draw.names.size());
  const std::vector<size_t> taken = within_limit(draw);
  if (draw.split.empty()) {
    for (const size_t i : taken) drawn[i] = 0;
    return drawn;
  }
  std::map<int64_t, std::vector<size_t>> by_class;
  for (const size_t i : taken) by_class[draw.classes[i]].push_back(i);
  std::vector<size_t> counts(draw.split.size());
  size_t largest = 0;
  for (auto& [label, samples] : by_class) {
    sort_by_draw(samples, draw.names, draw.in_sequence ? std::nullopt : std::optional(draw.seed));
    largest = std::max(largest, samples.size());
    const std::vector<size_t> ends = ends_in_class(draw.split, samples.size());
    size_t begin = 0;
    for (size_t s = 0; s < ends.size(); ++s) {
      for (size_t i = begin; i < ends[s]; ++i) drawn[samples[i]] = s;
      counts[s] += ends[s] - begin;
      begin = ends[s];
    }
  }
  for (size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] > 0) continue;
    if (by_class.size() > 1) return misuse("ingest", too_small_classes(draw.split, s, largest));
    return misuse("ingest", "too few samples for --split: '", kDrawnSplits[s],
                  "' would get none; add some or leave out --split");
  }
  return drawn;
}

}  // namespace dlpipe::ingest
