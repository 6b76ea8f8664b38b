// Passes: optimizations of a graph. Related ones share a file, passes_*.cpp; optimize() runs them in the order of its list
// (passes.cpp).
//
// A pass keeps the graph's inputs and outputs, and the graph still passes check(). It declares whether results keep their bits.
// If it replaces an output's value, optimize() gives the new one the output's name (name_outputs()).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/graph.h"

namespace dlpipe::engine::graph {

struct Pass {
  const char* name;
  const char* help;
  bool same_bits;  // else within the f32 tolerance of the ops it changes
  /// Returns how many nodes it removed, merged or made constant.
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
extern const Pass fuse_norm_residual;       // a batch norm takes the sum and the relu behind it, in training
extern const Pass fuse_add_relu;            // an add and the relu behind it are one pass
extern const Pass fuse_conv_units;          // convolutions with what follows, in networks with depthwise ones
extern const Pass fuse_conv_pairs;          // of these, a 1x1 one and the depthwise one behind it
extern const Pass fuse_elementwise_chains;  // elementwise ops one behind another are one pass over memory
extern const Pass remove_dead_nodes;        // what no output depends on

/// The passes that optimize() runs, in this order, until none changes anything.
std::span<const Pass* const> passes();
/// The passes that it then runs once.
std::span<const Pass* const> last_passes();

struct PassReport {
  const Pass* pass;
  int changes;
  size_t nodes;  // afterwards
};
/// Runs all passes, or with `same_bits_only` only those that keep the bits. New constants use at most 64 MiB plus 4 times the
/// bytes of the existing ones; changes that would need more are skipped. Cost: one visit of each node per pass and round.
std::vector<PassReport> optimize(Graph& graph, bool same_bits_only = false);

/// Of a graph in training form: the passes that change no constant, and whose ops have gradients. Answers stay within the f32
/// tolerance of the ops that are changed.
void fuse_for_training(Graph& graph);

/// What fuse_elementwise_chains joined as the ops that it was: for who has no such op (ONNX) or wants gradients.
Graph without_chains(Graph graph);

}  // namespace dlpipe::engine::graph
