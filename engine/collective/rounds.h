// The operations of a collective as rounds of exchanges: in each round a rank exchanges with the one whose number
// differs in one bit. Internal to collective.cpp. The number of ranks is a power of two; all ranks call the same
// function, with the same sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/collective/rank_group.h"
#include "dlpipe/engine/collective/transport.h"

namespace dlpipe::engine {

/// A transport as a group of its ranks sees it: numbers are the group's. Counts what it sends.
class Line {
 public:
  Line(Transport& transport, const RankGroup& group) : transport_(transport), group_(group) {}
  int rank() const { return group_.rank; }
  int world() const { return group_.world(); }
  Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
    DLPIPE_RETURN_IF_ERROR(transport_.exchange(group_.members[static_cast<size_t>(peer)], out, in));
    bytes_sent_ += static_cast<int64_t>(out.size());
    return {};
  }
  Status exchange(int peer, std::span<const float> out, std::span<float> in) {
    return exchange(peer, std::as_bytes(out), std::as_writable_bytes(in));
  }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  Transport& transport_;
  const RankGroup& group_;
  int64_t bytes_sent_ = 0;
};

/// Numbers of parts, [begin, end) of as many as there are ranks.
struct Parts {
  int begin = 0;
  int end = 0;
};

/// Values in parts.
struct PartedValues {
  std::span<float> values;
  std::vector<size_t> cuts;

  std::span<float> of(Parts parts) const {
    const size_t begin = cuts[static_cast<size_t>(parts.begin)], end = cuts[static_cast<size_t>(parts.end)];
    return values.subspan(begin, end - begin);
  }
};

/// The one part that is `rank`'s of `world`.
int part_number(int rank, int world);
/// Offsets of the parts of `count` values, world + 1 of them.
std::vector<size_t> cut_evenly(size_t count, int world);

/// Afterwards this rank's part is the sum over all ranks, along the tree of collective.h; the rest is undefined.
Status reduce_scatter_on(Line& line, const PartedValues& values, std::vector<float>& scratch);
/// Each rank's part reaches all others.
Status all_gather_on(Line& line, const PartedValues& values);
/// The same two with bf16 on the line; every value is rounded already.
Status reduce_scatter_rounded_on(Line& line, const PartedValues& values);
Status all_gather_rounded_on(Line& line, const PartedValues& values);
Status broadcast_on(Line& line, std::span<std::byte> bytes, int root);
/// Every rank's bytes, by rank, appended to `all`.
Status gather_on(Line& line, std::string_view mine, std::vector<std::string>& all);
Status barrier_on(Line& line);

}  // namespace dlpipe::engine
