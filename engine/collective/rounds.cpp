#include "dlpipe/engine/collective/rounds.h"

#include <cstring>

#include "dlpipe/base/dtype.h"

namespace dlpipe::engine {

namespace {

/// Of `parts`, what `rank` keeps when it shares with the rank that differs in `bit`; the other keeps the rest.
Parts half_of(Parts parts, int rank, int bit) {
  const int middle = (parts.begin + parts.end) / 2;
  return (rank & bit) == 0 ? Parts{parts.begin, middle} : Parts{middle, parts.end};
}

/// Values halved again and again.
void cut(std::vector<size_t>& cuts, Parts parts, size_t begin, size_t end) {
  cuts[static_cast<size_t>(parts.begin)] = begin;
  cuts[static_cast<size_t>(parts.end)] = end;
  if (parts.end - parts.begin == 1) return;
  const int middle_part = (parts.begin + parts.end) / 2;
  const size_t middle = begin + (end - begin) / 2;
  cut(cuts, {parts.begin, middle_part}, begin, middle);
  cut(cuts, {middle_part, parts.end}, middle, end);
}

/// What a rank has after each round of halving, all parts first.
std::vector<Parts> rounds_of(const Line& line) {
  std::vector<Parts> rounds = {{0, line.world()}};
  for (int bit = 1; bit < line.world(); bit <<= 1) rounds.push_back(half_of(rounds.back(), line.rank(), bit));
  return rounds;
}

std::vector<BFloat16> packed(std::span<const float> values) {
  std::vector<BFloat16> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = BFloat16(values[i]);
  return halves;
}

void append_size(std::string& to, uint64_t size) {
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
}

uint64_t take_size(std::string_view& from) {
  uint64_t size = 0;
  std::memcpy(&size, from.data(), sizeof size);
  from.remove_prefix(sizeof size);
  return size;
}

}  // namespace

// The bits of its number in reverse, as halves are taken lowest bit first.
int part_number(int rank, int world) {
  Parts parts{0, world};
  for (int bit = 1; bit < world; bit <<= 1) parts = half_of(parts, rank, bit);
  return parts.begin;
}

std::vector<size_t> cut_evenly(size_t count, int world) {
  std::vector<size_t> cuts(static_cast<size_t>(world) + 1);
  cut(cuts, {0, world}, 0, count);
  return cuts;
}

// Neighbours first, so that sums follow the tree over ranks: addition commutes, so both partners' halves are what the
// rank with the smaller number, as the left child, would compute.
Status reduce_scatter_on(Line& line, const PartedValues& values, std::vector<float>& scratch) {
  Parts parts{0, line.world()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Parts kept = half_of(parts, line.rank(), bit);
    const std::span<float> sum = values.of(kept);
    scratch.resize(sum.size());
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values.of(half_of(parts, peer, bit)), std::span(scratch)));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scratch[i];
    parts = kept;
  }
  return {};
}

Status all_gather_on(Line& line, const PartedValues& values) {
  std::vector<Parts> rounds = rounds_of(line);
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const Parts mine = rounds.back();
    rounds.pop_back();
    const Parts its = half_of(rounds.back(), peer, bit);
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values.of(mine), values.of(its)));
  }
  return {};
}

Status reduce_scatter_rounded_on(Line& line, const PartedValues& values) {
  Parts parts{0, line.world()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Parts kept = half_of(parts, line.rank(), bit);
    const std::vector<BFloat16> out = packed(values.of(half_of(parts, peer, bit)));
    const std::span<float> sum = values.of(kept);
    std::vector<BFloat16> in(sum.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = rounded_to_bf16(sum[i] + static_cast<float>(in[i]));
    parts = kept;
  }
  return {};
}

Status all_gather_rounded_on(Line& line, const PartedValues& values) {
  std::vector<Parts> rounds = rounds_of(line);
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const std::vector<BFloat16> out = packed(values.of(rounds.back()));
    rounds.pop_back();
    const std::span<float> its = values.of(half_of(rounds.back(), peer, bit));
    std::vector<BFloat16> in(its.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < its.size(); ++i) its[i] = static_cast<float>(in[i]);
  }
  return {};
}

// From `root` to twice as many in each round.
Status broadcast_on(Line& line, std::span<std::byte> bytes, int root) {
  const int place = line.rank() ^ root;
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    if (place >= 2 * bit) continue;
    const int peer = line.rank() ^ bit;
    const bool sends = (place & bit) == 0;
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, sends ? bytes : std::span<std::byte>(), sends ? std::span<std::byte>() : bytes));
  }
  return {};
}

// Blocks of ranks that grow from both sides: each round doubles what a rank has, in the order of ranks.
Status gather_on(Line& line, std::string_view mine, std::vector<std::string>& all) {
  std::string block;
  append_size(block, mine.size());
  block += mine;
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const uint64_t size = block.size();
    uint64_t its_size = 0;
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, std::as_bytes(std::span(&size, 1)),
                                         std::as_writable_bytes(std::span(&its_size, 1))));
    std::string its(its_size, '\0');
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, std::as_bytes(std::span(block.data(), block.size())),
                                         std::as_writable_bytes(std::span(its.data(), its.size()))));
    block.insert((line.rank() & bit) == 0 ? block.size() : 0, its);
  }
  std::string_view rest = block;
  while (!rest.empty()) {
    const uint64_t size = take_size(rest);
    all.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return {};
}

Status barrier_on(Line& line) {
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const std::byte out{};
    std::byte in{};
    DLPIPE_RETURN_IF_ERROR(line.exchange(line.rank() ^ bit, std::span(&out, 1), std::span(&in, 1)));
  }
  return {};
}

}  // namespace dlpipe::engine
