#include "engine/graph/passes.h"

#include <array>
#include <string>

#include "dlpipe/graph.h"

namespace dlpipe::engine::graph {

std::span<const Pass* const> passes() {
  static constexpr std::array kPasses = {
      &fold_constants,     // first: later passes don't see that a node's result is constant
      &share_equal_nodes,  // before fusions, which can hide that nodes are equal
      &fold_batch_norm,    // before fuse_activation: a relu after it is then fused into the convolution
      &fold_scale_and_shift, &fuse_attention,
      &leave_rows_in_place,  // after fuse_attention: the attention is between such transposes
      &fuse_written_out,     // before fuse_activation: a gelu written as a formula may belong to a linear
      &fuse_activation,
      &remove_dead_nodes,  // leftover nodes count as readers, and only a sole reader is fused into a convolution
      &fuse_conv_units,  // after passes that change weights or activations; before fuse_add_relu, which also fuses sums
      &remove_dead_nodes,  // for the same reason
      &fuse_conv_pairs,
      &fuse_add_relu,      // after fuse_activation: fusing a relu into a product is better
      &remove_dead_nodes,  // last
  };
  return kPasses;
}

std::span<const Pass* const> last_passes() {
  static constexpr std::array kPasses = {
      &fuse_elementwise_chains,  // after all rounds: no other pass looks into a chain
      &remove_dead_nodes,
  };
  return kPasses;
}

void fuse_for_training(Graph& graph) {
  static constexpr std::array kPasses = {
      &fuse_attention,     &leave_rows_in_place,
      &fuse_activation,     // before the sums: fusing a relu into a norm or a product is better
      &remove_dead_nodes,   // leftover nodes count as readers
      &fuse_norm_residual,  // before fuse_add_relu, which fuses the same sums
      &remove_dead_nodes,  &fuse_add_relu,       &remove_dead_nodes,
  };
  for (const Pass* const pass : kPasses) pass->run(graph);
  graph.drop_unused_values();
  check(graph);
}

// Returns the number of changes.
static int run_all(std::span<const Pass* const> list, Graph& graph, bool same_bits_only,
                   std::vector<PassReport>& reports) {
  int changes = 0;
  for (const Pass* const pass : list) {
    if (same_bits_only && !pass->same_bits) continue;
    const int changed = pass->run(graph);
    changes += changed;
    if (changed > 0) reports.push_back({pass, changed, graph.nodes.size()});
  }
  return changes;
}

std::vector<PassReport> optimize(Graph& graph, bool same_bits_only) {
  const std::vector<std::string> names = output_names(graph);
  std::vector<PassReport> reports;
  constexpr uint64_t kPlainBytes = uint64_t{64} << 20, kTimes = 4;
  graph.constant_bytes_left = kPlainBytes + kTimes * constant_bytes(graph);
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    if (run_all(passes(), graph, same_bits_only, reports) == 0) break;
  }
  run_all(last_passes(), graph, same_bits_only, reports);
  graph.drop_unused_values();
  name_outputs(graph, names);  // a pass may have replaced an output's value
  check(graph);
  return reports;
}

}  // namespace dlpipe::engine::graph
