// Convolutions by cuDNN 9's graph API (cudnn_conv.cpp). The simulated grid has none (tests/engine/cuda/simulated_conv.cpp).
#pragma once

#include "engine/cuda/grid/grid.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cuda {

enum class ConvPass : uint8_t { kForward, kImageGradient, kWeightGradient };

/// One pass over images [N,H,W,C], weights as rows [O,KH,KW,C/G] and outputs [N,OH,OW,O], all contiguous in
/// device memory and of `dtype` (f32, bf16 or f16). It writes one of the three from the other two: the
/// outputs, or the images' or the weights' gradient (in both, `outputs` is the outputs' gradient).
struct Convolution {
  ConvPass pass = ConvPass::kForward;
  Conv2dShape shape;
  DType dtype = DType::kF32;
  void* images = nullptr;
  void* weights = nullptr;
  void* outputs = nullptr;
  const void* bias = nullptr;  // [O], added in the same kernel; forward only
  bool accumulate = false;     // adds to the present outputs; forward only, without a bias
  bool relu = false;           // applied in the same kernel; NaN stays NaN; forward only
};

inline namespace DLPIPE_GRID_NAMESPACE {

/// Queues the pass in the calling thread's stream. Sums are in f32 and the same on every run; with tf32_allowed(),
/// f32 factors may be rounded to TF32. Returns false and does nothing if cuDNN is missing, disabled or has no such
/// engine. Then try again without relu, then without the bias, then use another implementation. The first call for
/// a shape on a thread builds a plan, which may take a second and memory, so don't capture that call in a graph.
bool convolve(const Convolution& convolution);

/// Whether cuDNN is available to convolve().
bool has_convolutions();

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
