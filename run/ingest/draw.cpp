#include "dlpipe/run/ingest/draw.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "dlpipe/base/refuse.h"
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
  for (auto& [label, samples] : by_class) {
    sort_by_draw(samples, draw.names, draw.in_sequence ? std::nullopt : std::optional(draw.seed));
    double before = 0;
    size_t begin = 0;
    for (size_t s = 0; s < draw.split.size(); ++s) {
      before += draw.split[s];
      const bool last = s + 1 == draw.split.size();
      const size_t end =
          last ? samples.size()
               : static_cast<size_t>(std::llround(before * static_cast<double>(samples.size())));
      for (size_t i = begin; i < end; ++i) drawn[samples[i]] = s;
      counts[s] += end - begin;
      begin = end;
    }
  }
  for (size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0)
      return misuse("ingest", "too few samples for --split: '", kDrawnSplits[s],
                    "' would get none; add some or leave out --split");
  }
  return drawn;
}

}  // namespace dlpipe::ingest
