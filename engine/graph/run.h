// Measurements of a graph's run other than its time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/graph.h"

namespace dlpipe::engine::graph {

// Counts copies that `apply` makes before kernels because of memory layouts: between plain and channel-blocked images
// (reorders), and of views that a kernel needs to be contiguous.

struct LayoutCopies {
  int64_t reorders = 0;
  int64_t of_views = 0;
  int64_t bytes = 0;  // written by both

  int64_t count() const { return reorders + of_views; }
  LayoutCopies& operator+=(const LayoutCopies& more) {
    reorders += more.reorders;
    of_views += more.of_views;
    bytes += more.bytes;
    return *this;
  }
};

/// The copies of one run: those before each node, and at the end those of outputs.
std::vector<LayoutCopies> layout_copies(const Runner& runner, std::span<const Tensor> inputs);

}  // namespace dlpipe::engine::graph
