#include "dlpipe/engine/graph/passes.h"

#include <array>
#include <string>

#include "dlpipe/engine/graph/output_names.h"

namespace dlpipe::engine::graph {

std::span<const Pass* const> passes() {
  static constexpr std::array kPasses = {
      &fold_constants,     // first: a constant's maker may be what a later pass would match
      &share_equal_nodes,  // before the pairs are fused, which could hide that they are equal
      &fold_batch_norm,    // before fuse_activation: the relu that it frees goes into the convolution
      &fold_scale_and_shift, &fuse_attention,
      &leave_rows_in_place,  // behind fuse_attention, which stands between such turns
      &fuse_written_out,     // before fuse_activation: a gelu written out may belong to a linear
      &fuse_activation,
      &remove_dead_nodes,  // what the others leave behind reads values, too, and only one reader's goes with a convolution
      &fuse_conv_units,  // after what changes weights or an activation's op; before fuse_add_relu, which takes sums
      &remove_dead_nodes,  // for the same reason
      &fuse_conv_pairs,
      &fuse_add_relu,      // after fuse_activation: a relu that a product can take is better there
      &remove_dead_nodes,  // last
  };
  return kPasses;
}

std::span<const Pass* const> last_passes() {
  static constexpr std::array kPasses = {
      &fuse_elementwise_chains,  // behind all rounds: no other pass looks into a chain
      &remove_dead_nodes,
  };
  return kPasses;
}

// How many changes it made.
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
  name_outputs(graph, names);  // a pass may have put another value in an output's place
  check(graph);
  return reports;
}

}  // namespace dlpipe::engine::graph
