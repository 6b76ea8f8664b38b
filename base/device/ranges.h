// Named ranges of the calling thread in a GPU profiler's time line (NVTX); nothing where dlpipe was built
// without CUDA, next to nothing where no profiler listens. The ledger opens one for each of its spans.
#pragma once

namespace dlpipe {

/// `name` is kept by the profiler: a literal. Ranges nest.
void push_range(const char* name);
void pop_range();

}  // namespace dlpipe
