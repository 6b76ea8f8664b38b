// Copies that `apply` puts before kernels because of how values lie in memory, counted: between plain images and blocks of
// channels (reorders), and of views that a kernel wants in one piece.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/engine/graph/run.h"

namespace dlpipe::engine::graph {

struct LayoutCopies {
  int64_t reorders = 0;
  int64_t of_views = 0;
  int64_t bytes = 0;  // that both write

  int64_t count() const { return reorders + of_views; }
  LayoutCopies& operator+=(const LayoutCopies& more) {
    reorders += more.reorders;
    of_views += more.of_views;
    bytes += more.bytes;
    return *this;
  }
};

/// Of one run: those before each node, and behind the last one those of outputs.
std::vector<LayoutCopies> layout_copies(const Runner& runner, std::span<const Tensor> inputs);

}  // namespace dlpipe::engine::graph
