#include "engine/core/flat_steps.h"

#include "engine/cuda/flat/flat_kernels.h"

namespace dlpipe::engine::cuda {

#if defined(__CUDACC__)
const FlatSteps flat_steps_cuda
#else
const FlatSteps flat_steps_cuda_simulated
#endif
    = {step_sgd, step_adam, step_lamb, update_ema, sum_squares, finish_norm, end_step, set, restore, add};

}  // namespace dlpipe::engine::cuda
