// Convolutions by cuDNN 9's graph API (cudnn_conv.cpp). Over the simulated grid there are none
// (tests/engine/cuda/simulated_conv.cpp).
#pragma once

#include "dlpipe/engine/cuda/grid/grid.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cuda {

enum class ConvPass : uint8_t { kForward, kImageGradient, kWeightGradient };

/// One pass over images [N,H,W,C], weights as rows [O,KH,KW,C/G] and outputs [N,OH,OW,O], all contiguous in
/// device memory and of `dtype`, f32, bf16 or f16. The pass writes one of them from the other two: outputs,
/// the images' gradient (from the outputs') or the weights' gradient (likewise).
struct Convolution {
  ConvPass pass = ConvPass::kForward;
  Conv2dShape shape;
  DType dtype = DType::kF32;
  void* images = nullptr;
  void* weights = nullptr;
  void* outputs = nullptr;
  const void* bias = nullptr;  // [O], added in the same kernel; forward only
  bool accumulate = false;     // add to what the outputs hold; forward only, without a bias
  bool relu = false;           // of the result, NaN kept, in the same kernel; forward only
};

inline namespace DLPIPE_GRID_NAMESPACE {

/// Puts it into the calling thread's stream; sums are of f32 products, in f32, and the same on every run.
/// False, with nothing done, where cuDNN isn't there, isn't wanted, or has no such engine: ask again without
/// relu, then without the bias, then do it some other way. The first call for a shape on a thread builds a
/// plan, which may take a second and memory: don't capture that one into a graph.
bool convolve(const Convolution& convolution);

/// Whether convolve() does any here.
bool has_convolutions();

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
