// Convolutions by cuDNN 9's graph API (cudnn_conv.cpp). Over the simulated grid there are none
// (tests/engine/cuda/simulated_conv.cpp).
#pragma once

#include "engine/cuda/grid/grid.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cuda {

enum class ConvPass : uint8_t { kForward, kImageGradient, kWeightGradient };

/// One pass over images [N,H,W,C], weights as rows [O,KH,KW,C/G] and outputs [N,OH,OW,O], all contiguous in
/// device memory and of `dtype`, f32, bf16 or f16. The pass writes one of them from the other two: outputs,
/// the images' gradient or the weights' gradient (both from the outputs' gradient).
struct Convolution {
  ConvPass pass = ConvPass::kForward;
  Conv2dShape shape;
  DType dtype = DType::kF32;
  void* images = nullptr;
  void* weights = nullptr;
  void* outputs = nullptr;
  const void* bias = nullptr;  // [O], added in the same kernel; forward only
  bool accumulate = false;     // add to what the outputs hold; forward only, without a bias
  bool relu = false;           // applied to the result in the same kernel, NaN stays NaN; forward only
};

inline namespace DLPIPE_GRID_NAMESPACE {

/// Queues the pass in the calling thread's stream; products and sums are in f32, and the same on every run.
/// Returns false and does nothing if cuDNN is missing, disabled, or has no such engine: try again without relu,
/// then without the bias, then use another implementation. The first call for a shape on a thread builds a
/// plan, which may take a second and memory: don't capture that call in a graph.
bool convolve(const Convolution& convolution);

/// Whether convolve() supports anything here.
bool has_convolutions();

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
