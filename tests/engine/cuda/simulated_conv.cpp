// The simulated grid has no library of convolutions: conv2d takes its own kernels.
#include "dlpipe/engine/cuda/cudnn/cudnn_conv.h"

namespace dlpipe::engine::cuda {
inline namespace simulated {

bool convolve(const Convolution&) {
  return false;
}

}  // namespace simulated
}  // namespace dlpipe::engine::cuda
