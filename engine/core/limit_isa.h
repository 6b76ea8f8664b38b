// Pins the instruction set of the CPU's kernels, for machines of different CPUs that compute one run together, or for
// a run that is to be repeated on a lesser one.
#pragma once

#include "dlpipe/base/error.h"
#include "dlpipe/engine/core/kernel_table.h"

namespace dlpipe::engine {

/// kernel_isa() is `isa` from now on, for the rest of the process, in all kernels of the engine: oneDNN's and its own, in Highway
/// or not. What decodes and augments has the same bits on all, and goes on with the best. Before the first kernel runs: kMisuse where
/// kernels of a better one have run already, or where this machine hasn't got it. Engine/cpu says how, as for kernel_isa(). One
/// thread; calling it again with the same one does nothing.
Status limit_kernel_isa(KernelIsa isa);

}  // namespace dlpipe::engine
