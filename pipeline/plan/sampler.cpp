#include "pipeline/plan/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/random.h"

namespace dlpipe::pipeline {

namespace {

// Streams of the seed that no op draws from: the permutation's keys and the substitutes. Ops are numbered
// from 0, so these do not collide with theirs.
constexpr uint32_t kSubstituteStream = 0xffff;
constexpr uint32_t kCompanionStream = 0xfffd;                // 0xfffe is batch_pixels.cpp's
constexpr uint64_t kPermutationStream = 0x7065726d75746500;  // "permute"
constexpr uint64_t kGroupStream = 0x67726f7570000001;        // "group", odd
constexpr uint64_t kSubsetStream = 0x7375627365740000;       // "subset"

// The round function: a multiply-xorshift mix of a half and the round's key. Quality comes from several rounds of it; a Philox
// block per round would cost ten times as much without a difference in the tests of uniformity.
uint64_t mix(uint64_t half, uint64_t key) {
  uint64_t x = (half + key) * 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  x ^= x >> 32;
  x *= 0xD1B54A32D192ED03u;  // odd, no simple relation to the first
  return x ^ (x >> 29);
}

/// Uniform in [0, count).
int64_t below(RandomStream& rng, int64_t count) {
  const auto limit = static_cast<uint64_t>(count);
  if (limit <= UINT32_MAX) return rng.below(static_cast<uint32_t>(limit));
  const uint64_t high = rng.next_u32();
  return static_cast<int64_t>(((high << 32) | rng.next_u32()) % limit);  // bias below 2^-20 up to 2^44
}

/// floor(index * size / count): where stretch `index` begins.
int64_t stretch_begin(int64_t index, int64_t size, int64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>(static_cast<Wide>(index) * static_cast<Wide>(size) / static_cast<Wide>(count));
}

}  // namespace

int64_t Subset::sample(int64_t index) const {
  if (count_ < size_) {
    const int64_t begin = stretch_begin(index, size_, count_);
    const int64_t end = stretch_begin(index + 1, size_, count_);
    RandomStream rng(philox_mix(seed_, kSubsetStream), static_cast<uint64_t>(index));
    index = begin + below(rng, end - begin);
  }
  return chosen_ == nullptr ? index : (*chosen_)[static_cast<size_t>(index)];
}

std::string Subset::to_string() const {
  if (is_all()) return "";
  std::string text = human_count(count_);
  if (count_ < size_ || chosen_ == nullptr) text += concat(" of ", human_count(size_));
  text += chosen_ == nullptr ? " samples" : " chosen samples";
  if (chosen_ != nullptr)
    text += concat(" (list ", hex64(data::checksum64(std::as_bytes(std::span(*chosen_)))), ")");
  return count_ < size_ ? concat(text, ", by seed ", seed_) : text;
}

Permutation::Permutation(int64_t size) : size_(size) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))));
  rounds_ = bits < 12 ? kMaxRounds : 6;
  low_bits_ = bits / 2;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
}

Permutation::Permutation(int64_t size, uint64_t key) : Permutation(size) {
  for (int round = 0; round < rounds_; ++round)
    keys_[static_cast<size_t>(round)] = key = mix(key, kGroupStream + 2 * static_cast<uint64_t>(round));
}

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t stream) : Permutation(size) {
  RandomStream keys(philox_mix(seed, kPermutationStream), stream);
  for (uint64_t& key : keys_) {
    key = keys.next_u32();
    key = (key << 32) | keys.next_u32();
  }
}

int64_t Permutation::operator()(int64_t index) const {
  uint64_t value = static_cast<uint64_t>(index);
  do {
    uint64_t low = value & low_mask_;
    uint64_t high = value >> low_bits_;
    for (int round = 0; round < rounds_; round += 2) {
      low ^= mix(high, keys_[round]) & low_mask_;
      high ^= mix(low, keys_[round + 1]) & high_mask_;
    }
    value = (high << low_bits_) | low;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

Quotas::Quotas(std::span<const int32_t> groups, std::span<const double> weights)
    : whole_(weights.size()), parts_(weights.size()), begins_(weights.size() + 1), members_(groups.size()) {
  for (const int32_t group : groups) ++begins_[static_cast<size_t>(group) + 1];
  for (size_t group = 0; group < weights.size(); ++group) begins_[group + 1] += begins_[group];
  std::vector<int64_t> next(begins_.begin(), begins_.end() - 1);
  for (size_t place = 0; place < groups.size(); ++place)
    members_[static_cast<size_t>(next[static_cast<size_t>(groups[place])]++)] = static_cast<int64_t>(place);
  const auto weight_of = [&](size_t group) {
    return begins_[group + 1] > begins_[group] ? weights[group] : 0.0;
  };
  double total = 0;
  size_t last = 0;  // the last group with a weight
  for (size_t group = 0; group < weights.size(); ++group) {
    total += weight_of(group);
    if (weight_of(group) > 0) last = group;
  }
  if (!(total > 0)) return;
  int64_t whole = 0;
  double rest = 0;
  for (size_t group = 0; group < weights.size(); ++group) {
    const double share = static_cast<double>(groups.size()) * weight_of(group) / total;
    const auto own = static_cast<int64_t>(share);
    whole_[group] = whole += own;
    rest += share - static_cast<double>(own);
    parts_[group] = std::llround(rest * static_cast<double>(kParts));
  }
  const int64_t left = (static_cast<int64_t>(groups.size()) - whole) * kParts;
  for (size_t group = 0; group < weights.size(); ++group)
    parts_[group] = group >= last ? left : std::min(parts_[group], left);
}

namespace {

constexpr int64_t kGolden =
    648055;  // 2^20 divided by the golden ratio, made odd: each offset occurs once in 2^20 epochs

/// The sum of floor((a i + b) / m) over 0 <= i < n, for a, b >= 0 (Euclid's algorithm).
int64_t sum_of_floors(int64_t n, int64_t m, int64_t a, int64_t b) {
  int64_t sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const int64_t top = a * n + b;
    n = top / m;
    b = top % m;
    std::swap(m, a);
  }
  return sum;
}

}  // namespace

int64_t Quotas::end(size_t group, int64_t epoch) const {
  const int64_t offset = epoch % kParts * kGolden % kParts;
  return whole_[group] + (parts_[group] + kParts - 1 - offset) / kParts;
}

int64_t Quotas::before(size_t group, int64_t epoch) const {
  // Counts the marks below `parts` in all earlier epochs. An epoch has floor((parts + kParts - 1 - offset) / kParts) of them,
  // and kParts epochs, with all offsets, have `parts`. For the remaining epochs i, -offset is kParts * floor(i * kGolden /
  // kParts) - i * kGolden, which gives two sums; the second one runs backwards.
  const int64_t parts = parts_[group], left = epoch % kParts;
  const int64_t last = left > 0 ? (left - 1) * kGolden : 0;
  const int64_t lift = (last + kParts - 1) / kParts;  // keeps the numerators above 0
  const int64_t marks = sum_of_floors(left, kParts, kGolden, 0) - left * lift +
                        sum_of_floors(left, kParts, kGolden, parts + kParts - 1 - last + lift * kParts);
  return epoch * whole_[group] + epoch / kParts * parts + marks;
}

int64_t Quotas::sample(int64_t place, int64_t epoch, uint64_t key) const {
  size_t group = 0;
  for (size_t most = whole_.size() - 1; group < most;) {
    const size_t middle = (group + most) / 2;
    if (end(middle, epoch) > place) {
      most = middle;
    } else {
      group = middle + 1;
    }
  }
  const int64_t size = begins_[group + 1] - begins_[group];
  const int64_t begin = group > 0 ? end(group - 1, epoch) : 0;
  const int64_t drawn = before(group, epoch) - (group > 0 ? before(group - 1, epoch) : 0) + place - begin;
  const Permutation permutation(size, mix(mix(philox_mix(key, kGroupStream), static_cast<uint64_t>(group)),
                                          static_cast<uint64_t>(drawn / size)));
  return members_[static_cast<size_t>(begins_[group] + permutation(drawn % size))];
}

int64_t Sampler::batches_per_epoch() const {
  const int64_t global = global_batch();
  return options_.keep_last ? (options_.subset.count() + global - 1) / global
                            : options_.subset.count() / global;
}

int64_t Sampler::samples_used_per_epoch() const {
  return options_.keep_last ? options_.subset.count() : batches_per_epoch() * global_batch();
}

int64_t Sampler::samples_per_epoch() const {
  const int64_t batches = batches_per_epoch();
  if (batches == 0) return 0;
  const BatchRange last = range(batches - 1);
  return (batches - 1) * options_.batch * options_.views + last.count - last.repeated;
}

BatchRange Sampler::range(int64_t sequence) const {
  const int64_t batches = batches_per_epoch();
  BatchRange range;
  range.epoch = sequence / batches;
  range.index = sequence % batches;
  range.last_in_epoch = range.index == batches - 1;
  const int64_t begin = range.index * global_batch();
  const int64_t there = std::min(global_batch(), options_.subset.count() - begin);
  if (options_.fixed_parts) {
    const int64_t before = std::min(options_.rank * options_.batch, there);
    range.first = begin + before;
    range.count = std::min(options_.batch, there - before);
  } else if (options_.pad_last) {
    range.count = (there + options_.world - 1) / options_.world;
    const int64_t before = std::min(options_.rank * range.count, there - range.count);
    range.first = begin + before;
    range.repeated = std::min(options_.rank * range.count - before, range.count);
  } else {
    range.first = begin + there * options_.rank / options_.world;
    range.count = begin + there * (options_.rank + 1) / options_.world - range.first;
  }
  range.first *= options_.views;
  range.count *= options_.views;
  range.repeated *= options_.views;
  return range;
}

int64_t Sampler::last_epoch() const {
  const int64_t of_epoch = std::max(batches_per_epoch(), options_.views * samples_used_per_epoch());
  return std::numeric_limits<int64_t>::max() / (of_epoch + 1) - 1;
}

int64_t Sampler::consumed(int64_t epoch, int64_t index) const {
  const int64_t samples = samples_used_per_epoch();
  return options_.views * (epoch * samples + std::min(index * global_batch(), samples));
}

int64_t Sampler::substitute(int64_t epoch, int64_t position, int32_t attempt) const {
  RandomStream rng({options_.seed, epoch, position / options_.views, attempt}, kSubstituteStream);
  return options_.subset.sample(below(rng, options_.subset.count()));
}

void Sampler::companions(int64_t epoch, int64_t position, int32_t attempt, std::span<int64_t> others) const {
  RandomStream rng({options_.seed, epoch, position, attempt}, kCompanionStream);
  for (int64_t& other : others) other = options_.subset.sample(below(rng, options_.subset.count()));
}

}  // namespace dlpipe::pipeline
