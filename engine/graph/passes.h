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

extern const Pass fold_constants;           // computes nodes whose inputs are all constants
extern const Pass share_equal_nodes;        // merges nodes with the same op, inputs and attributes
extern const Pass fold_batch_norm;          // folds an inference batch norm into the convolution's weights
extern const Pass fold_scale_and_shift;     // folds a multiply or add of one constant per channel, too
extern const Pass fuse_activation;          // fuses relu and gelu into their convolution or linear
extern const Pass fuse_attention;           // attention written out as matmuls and a softmax: self_attention
extern const Pass leave_rows_in_place;      // removes transposes of rows before and after linears
extern const Pass fuse_written_out;         // gelu and silu written out as several nodes: those ops
extern const Pass fuse_norm_residual;       // fuses the add and relu after a training batch norm into it
extern const Pass fuse_add_relu;            // fuses an add and the relu after it
extern const Pass fuse_conv_units;          // convolution, activation, add: conv_unit, in depthwise networks
extern const Pass fuse_conv_pairs;          // a 1x1 conv_unit and the depthwise one after it: conv_pair
extern const Pass fuse_elementwise_chains;  // consecutive elementwise ops: one pass over memory
extern const Pass remove_dead_nodes;        // removes nodes that no output depends on

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

/// For a graph in training form: runs the passes that don't change constants and whose ops have gradients. Outputs stay within
/// the f32 tolerance of the changed ops.
void fuse_for_training(Graph& graph);

/// Splits the chains of fuse_elementwise_chains into their ops again, for formats without that op (ONNX) and for gradients.
Graph without_chains(Graph graph);

}  // namespace dlpipe::engine::graph
