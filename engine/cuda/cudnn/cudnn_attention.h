// Attention by cuDNN 9's graph API (cudnn_attention.cpp). Over the simulated grid there is none
// (tests/engine/cuda/simulated_attention.cpp).
#pragma once

#include "dlpipe/engine/cuda/cudnn/attention_graph.h"
#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {

inline namespace DLPIPE_GRID_NAMESPACE {

/// Puts it into the calling thread's stream; sums are in f32 and the same on every run. False, with nothing
/// done, where cuDNN isn't there, isn't wanted, or has no such engine: do it some other way. Either pass may
/// be done by either: log_sums are the same. The first call for a shape on a thread builds a plan, which may
/// take a second and memory: don't capture that one into a graph.
bool attend(const AttentionProblem& problem);

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
