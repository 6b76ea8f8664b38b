// How CPU kernels use more than one core: slices whose borders are a pure function of the problem, never of
// the number of threads, so that results are the same bits on 1, 2 or 64 threads.
//
// One training arena for the process, of `engine_threads()` slots at high priority; its workers (and the
// caller) run with omp_set_num_threads(1), so that every oneDNN call is single-threaded. May be called from
// one thread at a time a graph; nested calls run inside the same arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace dlpipe::engine {

/// Number of threads of the training arena; set once before the first op (Session does), later calls rebuild
/// it.
void set_engine_threads(int threads);
int engine_threads();

/// Calls body(slice) for slice = 0 .. count-1, in any order, on any thread; returns when all are done. The
/// first exception is rethrown here.
void parallel_slices(int64_t count, const std::function<void(int64_t slice)>& body);

/// Splits [0, n) into slices of `grain` (the last may be shorter) and calls body(begin, end) for each.
void parallel_ranges(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

/// Scratch of the calling worker: at least `bytes`, aligned to 64, valid until the worker's next call with
/// the same slot number (0..3). Grows and stays.
std::byte* worker_scratch(int slot, size_t bytes);

}  // namespace dlpipe::engine
