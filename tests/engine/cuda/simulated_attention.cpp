// The simulated grid has no library of attention: self_attention takes its own kernels.
#include "engine/cuda/cudnn/cudnn_attention.h"

namespace dlpipe::engine::cuda {
inline namespace simulated {

bool attend(const AttentionProblem&) {
  return false;
}

}  // namespace simulated
}  // namespace dlpipe::engine::cuda
