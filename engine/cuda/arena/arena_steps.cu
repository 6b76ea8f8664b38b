#include "dlpipe/engine/core/arena_steps.h"

#include "dlpipe/engine/cuda/arena/arena_kernels.h"
#include "dlpipe/engine/cuda/arena/arena_lamb.h"
#include "dlpipe/engine/cuda/arena/arena_norms.h"

namespace dlpipe::engine::cuda {

#if defined(__CUDACC__)
const ArenaSteps arena_steps_cuda
#else
const ArenaSteps arena_steps_cuda_simulated
#endif
    = {step_sgd, step_adam, step_lamb, update_ema, sum_squares, finish_norm, end_step, set, restore};

}  // namespace dlpipe::engine::cuda
