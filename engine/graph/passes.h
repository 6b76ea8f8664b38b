// Passes: changes to a graph that keep what it computes. One file each in passes/; the order in which optimize()
// runs them is its list (passes.cpp).
//
// A pass keeps inputs and outputs of the graph, and what check() holds. It says whether answers stay the same bits. Where it puts
// another value in an output's place, optimize() gives that one the output's name (output_names.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

struct Pass {
  const char* name;
  const char* help;
  bool same_bits;  // else within the f32 tolerance of the ops it changes
  /// Answers how many nodes it took away, joined or made constant.
  int (*run)(Graph& graph);
};

extern const Pass fold_constants;     // nodes of constants alone are run once
extern const Pass share_equal_nodes;  // nodes of one op, inputs and attributes are one
extern const Pass fold_batch_norm;  // a batch norm by running statistics goes into the convolution's weights
extern const Pass fold_scale_and_shift;     // so do a product with, and a sum of, one constant per channel
extern const Pass fuse_activation;          // relu and gelu run in the pass of their convolution or linear
extern const Pass fuse_attention;           // attention that exporters write out becomes that op
extern const Pass leave_rows_in_place;      // linears between two turns of their rows take them as they lie
extern const Pass fuse_written_out;         // gelu and silu that exporters write out become those ops
extern const Pass fuse_add_relu;            // an add and the relu behind it are one pass
extern const Pass fuse_conv_units;          // convolutions with what follows, in networks with depthwise ones
extern const Pass fuse_conv_pairs;          // of these, a 1x1 one and the depthwise one behind it
extern const Pass fuse_elementwise_chains;  // elementwise ops one behind another are one pass over memory
extern const Pass remove_dead_nodes;        // what no output depends on

/// Those that optimize() runs until none changes anything, in that order.
std::span<const Pass* const> passes();
/// And those that it runs once behind them.
std::span<const Pass* const> last_passes();

struct PassReport {
  const Pass* pass;
  int changes;
  size_t nodes;  // afterwards
};
/// Runs all passes, or with `same_bits_only` those that keep the bits. New constants take at most 64 MiB and 4 times the bytes of
/// those that are there; what would take more stays as it is. Cost: a look at each node per pass and round.
std::vector<PassReport> optimize(Graph& graph, bool same_bits_only = false);

/// What fuse_elementwise_chains joined as the ops that it was: for who has no such op (ONNX) or wants gradients.
Graph without_chains(Graph graph);

}  // namespace dlpipe::engine::graph
