// Loops over two operands that are stretched to one shape: outer rows, and an inner run along which each
// operand either moves on by one or stays.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine::cpu {

class BroadcastPlan {
 public:
  BroadcastPlan(const Shape& shape, const Shape& a, const Shape& b);

  struct Row {
    int64_t to;  // first element of the output
    std::array<int64_t, 2> from;
    int64_t count;
  };
  /// Calls body(row) for every inner run, in parallel slices whose borders only the shapes decide; long runs
  /// come in pieces.
  template <class Body>
  void for_each_row(const Body& body) const {
    const int64_t pieces = (inner_ + kElementwiseGrain - 1) / kElementwiseGrain;
    parallel_ranges(rows_ * pieces, std::max<int64_t>(1, kElementwiseGrain / inner_),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t task = begin; task < end; ++task)
                        body(row(task / pieces, task % pieces * kElementwiseGrain));
                    });
  }
  /// Whether operand `k` moves along the inner run.
  bool moves(int k) const { return inner_moves_[static_cast<size_t>(k)]; }

 private:
  struct Axis {
    int64_t size;
    std::array<int64_t, 2> stride;
  };
  Row row(int64_t index, int64_t first) const;

  std::vector<Axis> outer_;
  int64_t rows_ = 1;
  int64_t inner_ = 1;
  std::array<bool, 2> inner_moves_{};
};

/// Calls body(std::bool_constant<a moves>, std::bool_constant<b moves>): one loop for each case.
template <class Body>
void with_moves(const BroadcastPlan& plan, const Body& body) {
  if (plan.moves(0)) {
    if (plan.moves(1)) return body(std::true_type{}, std::true_type{});
    return body(std::true_type{}, std::false_type{});
  }
  if (plan.moves(1)) return body(std::false_type{}, std::true_type{});
  body(std::false_type{}, std::false_type{});
}

}  // namespace dlpipe::engine::cpu
