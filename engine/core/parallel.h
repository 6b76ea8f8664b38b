// How CPU kernels use several cores: slices with borders that depend only on the problem, never on the
// number of threads, so that results have the same bits on 1, 2 or 64 threads.
//
// The process has one pool with `engine_threads()` slots at high priority, one of them reserved for the
// caller. Its workers (and the caller, while inside) run with omp_set_num_threads(1), so that every oneDNN
// call is single-threaded. Several threads may call at once (one graph each): each runs its own slices
// and helps with the others' while it waits. A nested call from inside a body runs its slices one after
// another on that worker. So no other body ever runs on the stack of a body that is not finished, and its
// scratch is not overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dlpipe/tensor.h"  // engine_threads, parallel_slices, parallel_ranges

namespace dlpipe::engine {

/// How many slices of `b` cover `a`: a / b, rounded up.
constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Scratch memory of the calling thread for slice bodies: at least `bytes`, aligned to 64, valid until this thread's
/// next call with the same slot number (0 .. 3), or outside of bodies until its next body. It grows and is kept until the
/// thread ends or renew_worker_scratch(). For memory shared by an op's slices use Tensor::empty, which reuses blocks.
inline constexpr int kScratchSlots = 4;
std::byte* worker_scratch(int slot, size_t bytes);

/// Frees all threads' scratch, each at the thread's next body. For use after trying kernels that needed more scratch, and
/// before measuring memory. Any thread.
void renew_worker_scratch();

/// Bytes held by all threads' scratch, for memory reports.
size_t worker_scratch_bytes();
/// The largest scratch of one worker since the last renew_worker_scratch().
size_t largest_worker_scratch_bytes();

/// While an object lives, this thread's OpenMP regions have one thread. oneDNN primitives that are made and run
/// outside of the pool need it, too.
class SingleOpenMpThread {
 public:
  SingleOpenMpThread();
  ~SingleOpenMpThread();
  SingleOpenMpThread(const SingleOpenMpThread&) = delete;
  SingleOpenMpThread& operator=(const SingleOpenMpThread&) = delete;

 private:
  int former_;
};

}  // namespace dlpipe::engine
