// How CPU kernels use more than one core: slices whose borders are a pure function of the problem, never of
// the number of threads, so that results are the same bits on 1, 2 or 64 threads.
//
// One training pool for the process, of `engine_threads()` slots at high priority, one of them kept for the
// caller; its workers (and the caller, while inside) run with omp_set_num_threads(1), so that every oneDNN
// call is single-threaded. Several threads may call at once (one graph each): each works on its own slices
// and helps with the others' while it waits. A call from inside a body runs its slices one after another on
// that worker, so that a body never meets another body halfway on its own stack and its scratch stays its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace dlpipe::engine {

/// Number of threads of the training pool; set once before the first op (Session does), later calls rebuild
/// it. Without a call: available_threads(). `threads` < 1 is taken as 1. Throws where the system gives fewer.
void set_engine_threads(int threads);
int engine_threads();

/// How many slices of `b` cover `a`: a / b, rounded up.
constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Calls body(slice) for slice = 0 .. count-1, in any order, on any thread; returns when all are done. The
/// first exception is rethrown here, the slices not yet begun are dropped.
void parallel_slices(int64_t count, const std::function<void(int64_t slice)>& body);

/// Splits [0, n) into slices of `grain` (the last may be shorter) and calls body(begin, end) for each.
void parallel_ranges(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

/// Scratch of the calling thread for slice bodies: at least `bytes`, aligned to 64, valid until this thread's
/// next call with the same slot number (0 .. 3), or outside of bodies until its next body. Grows and stays until the thread
/// ends, or all begins anew. What one op's slices share comes from Tensor::empty, whose blocks all ops reuse.
inline constexpr int kScratchSlots = 4;
std::byte* worker_scratch(int slot, size_t bytes);

/// Has all scratch begin anew, each thread's with its next body, so that what other kernels needed is given back: after trying
/// some, before measuring some. Any thread.
void renew_worker_scratch();

/// Bytes held by all threads' scratch, for memory reports.
size_t worker_scratch_bytes();
/// The most that one worker has had since they last began anew.
size_t largest_worker_scratch_bytes();

/// While one lives, this thread's OpenMP regions have one thread: oneDNN primitives made and run outside the
/// pool need it, too.
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
