// Who is to blame when a rank's peer has not answered in time: perhaps the peer waits, too. Ranks that give up tell the
// others whom they waited for; the one at the end of that chain, of which nobody heard that it waits, is the one that is
// gone. A value; transports use it.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine {

class LateRanks {
 public:
  explicit LateRanks(int world) : waits_for_(static_cast<size_t>(world)) {}

  void note(int rank, int waits_for) { waits_for_[static_cast<size_t>(rank)] = waits_for; }
  /// The rank that keeps whoever waits for `peer`.
  int culprit(int peer) const {
    for (size_t steps = 0; steps < waits_for_.size(); ++steps) {
      const std::optional<int> next = waits_for_[static_cast<size_t>(peer)];
      if (!next) break;
      peer = *next;
    }
    return peer;
  }
  /// How long a rank that gives up listens to the others before it says who is gone.
  static std::chrono::duration<double> listening(double timeout_s) {
    return std::chrono::duration<double>(std::min(1.0, timeout_s / 4));
  }
  /// The error of who waited for `peer`.
  Status gone(int peer, double timeout_s) const {
    return {ErrorCode::kIo, concat("rank ", culprit(peer), " has not answered for ", fixed(timeout_s, 1),
                                   " s (--peer-timeout); see what it printed last, and go on with --resume")};
  }

 private:
  std::vector<std::optional<int>> waits_for_;
};

}  // namespace dlpipe::engine
