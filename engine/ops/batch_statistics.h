// Batch norm over more than the samples at hand: the parts of a batch that are computed apart, on threads or in processes
// of their own, exchange their sums, so that each normalises by the whole batch's statistics (--sync-bn).
//
// Values; StatisticsPeers is called by the thread that runs the op.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/base/scoped_value.h"

namespace dlpipe::engine {

/// The parts of one batch, of equal size and computed by the same ops in the same order.
class StatisticsPeers {
 public:
  virtual ~StatisticsPeers() = default;
  /// `values` become their sum over all parts: the same bits in each of them. Waits for the others; throws where one
  /// of them has failed.
  virtual void sum(std::span<float> values) = 0;
  virtual int64_t parts() const = 0;
  /// Whether the part at hand is the one of this process that keeps running statistics; they are the same in all.
  virtual bool leads() const = 0;
};

namespace thread_state {
StatisticsPeers*& statistics_peers();
}

/// The calling thread's; null: batch norms take the statistics of what they are given.
inline StatisticsPeers* statistics_peers() {
  return thread_state::statistics_peers();
}
/// While one lives, training batch norms of this thread ask the peers given.
using UseStatisticsPeers = ScopedValue<thread_state::statistics_peers>;

/// Of one channel.
struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: sum of (x - mean)^2

  /// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
  /// 1979.
  void add(double other_count, double other_mean, double other_squares) {
    const double both = count + other_count;
    const double delta = other_mean - mean;
    mean += delta * other_count / both;
    squares += other_squares + delta * delta * count * other_count / both;
    count = both;
  }
};

/// Moments of one part, [C], become those of the whole batch: first its mean, then the squares about that.
void share_moments(StatisticsPeers& peers, std::span<Moments> channels);

/// What backward needs of one channel: sums of g and of g (x - mean), or of g xhat.
struct GradientTotals {
  double sum = 0, weighted = 0;
};
/// Totals of one part, [C], become those of the whole batch.
void share_totals(StatisticsPeers& peers, std::span<GradientTotals> channels);

}  // namespace dlpipe::engine
