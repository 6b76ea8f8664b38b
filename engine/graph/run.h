// Running a graph: its nodes one after another through `apply`, as the program that it was captured from runs in inference
// mode, to the same bits. A value's memory goes back to the allocator after its last reader.
//
// A Runner owns its graph. One thread at a time calls run(); kernels parallelise inside, or parts of the batch are run by a
// thread each (by_sample.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/graph/by_sample.h"
#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

class Runner {
 public:
  /// Error (kCorrupt) where check(graph) finds something.
  explicit Runner(Graph graph);

  const Graph& graph() const { return graph_; }
  /// Outputs for `inputs`, plain, without history. kMisuse where shapes or dtypes aren't the graph's.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  /// The same with history, for a training step: constants may have changed since the last call.
  std::vector<Tensor> forward(std::span<const Tensor> inputs) const;
  /// Called after every node of a run (of each part of the batch, where it runs in parts: by_sample.h), with its place in
  /// the graph and how long it took.
  using Observer = std::function<void(size_t node, int64_t ns)>;
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observer& observer) const;
  /// The batch that inputs of these shapes are; kMisuse where they are none.
  int64_t batch_of(std::span<const Tensor> inputs) const;
  /// What kernels have made of the weights, and keep: packed ones, those in a low dtype.
  size_t packed_bytes() const { return cache_.size_bytes(); }

 private:
  std::vector<Tensor> run_nodes(std::span<const Tensor> inputs, const Observer& observer) const;
  std::vector<Tensor> run_by_parts(std::span<const Tensor> inputs, int64_t batch,
                                   const Observer& observer) const;
  void run_parts_apart(std::span<const Tensor> inputs, int64_t batch, int64_t parts,
                       std::vector<Tensor>* outputs) const;
  void run_part(std::span<const Tensor> inputs, int64_t batch, int64_t first, int64_t last,
                const Observer& observer, std::vector<Tensor>* outputs) const;

  Graph graph_;
  BatchParts parts_;                              // of a batch that run() is given
  mutable ConstantCache cache_;                   // packed weights
  std::vector<std::vector<ValueId>> dead_after_;  // a node: values that nobody reads later
};

}  // namespace dlpipe::engine::graph
