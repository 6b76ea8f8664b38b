#include "engine/core/parallel.h"

#include <omp.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/machine.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "dlpipe/device.h"
#include "dlpipe/tensor.h"
#include "engine/core/kernel_table.h"

namespace dlpipe::engine {
namespace {

thread_local int omp_threads_outside = 0;  // OpenMP threads of a caller's thread before it entered the pool
thread_local int pool_depth = 0;           // entries of a caller's thread into pools
thread_local bool single_worker = false;   // a worker whose OpenMP has one thread
thread_local int body_depth = 0;           // bodies on this thread's stack

// A TBB worker stays single-threaded: it may leave the pool while the process exits, when clang's OpenMP is already destroyed
// and calling it would abort.
class SingleThreadedOpenMp : public tbb::task_scheduler_observer {
 public:
  explicit SingleThreadedOpenMp(tbb::task_arena& pool) : tbb::task_scheduler_observer(pool) { observe(true); }
  ~SingleThreadedOpenMp() override { observe(false); }
  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) {
      if (std::exchange(single_worker, true)) return;
    } else if (pool_depth++ == 0) {
      omp_threads_outside = omp_get_max_threads();
    }
    omp_set_num_threads(1);
  }
  void on_scheduler_exit(bool is_worker) override {
    if (!is_worker && --pool_depth == 0) omp_set_num_threads(omp_threads_outside);
  }
};

class TrainingPool {
 public:
  TrainingPool(int threads, bool limit_workers)
      : threads_(threads),
        // Without a limit, TBB creates one worker per core of the machine: too many for a cgroup's quota, and too
        // few if a test requests eight threads on two cores.
        limit_(limit_workers ? std::make_unique<WorkerLimit>(threads) : nullptr),
        arena_(threads, 1, tbb::task_arena::priority::high),
        observer_(arena_) {}

  int threads() const { return threads_; }
  tbb::task_arena& arena() { return arena_; }

 private:
  int threads_;
  std::unique_ptr<WorkerLimit> limit_;
  tbb::task_arena arena_;
  SingleThreadedOpenMp observer_;
};

struct CurrentPool {
  Mutex mutex;
  std::shared_ptr<TrainingPool> pool DLPIPE_GUARDED_BY(mutex);
};
CurrentPool& current() {
  static auto* const one = new CurrentPool;  // never destroyed: at exit TBB may already be gone
  return *one;
}

std::shared_ptr<TrainingPool> training_pool() {
  CurrentPool& now = current();
  const MutexLock lock(now.mutex);
  if (now.pool == nullptr) now.pool = std::make_shared<TrainingPool>(available_threads(), false);
  return now.pool;
}

std::atomic<size_t> scratch_total{0}, scratch_largest{0};
// Outdated scratch is freed when its thread next uses it, or at the thread's next body.
std::atomic<uint64_t> scratch_age{0};

struct Scratch {
  std::byte* data = nullptr;
  size_t size = 0;
  uint64_t age = 0;

  void grow(size_t bytes) {
    release();
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    data = static_cast<std::byte*>(allocate_host(rounded));
    if (data == nullptr) throw std::bad_alloc();
    size = rounded;
    scratch_total += size;
  }
  void release() {
    free_host(data);
    scratch_total -= size;
    data = nullptr;
    size = 0;
  }
  ~Scratch() { release(); }
};

std::array<Scratch, kScratchSlots>& thread_scratch() {
  thread_local std::array<Scratch, kScratchSlots> scratch;
  return scratch;
}

/// Called when no scratch of the thread is in use.
void release_old_scratch() {
  thread_local uint64_t checked = 0;
  const uint64_t now = scratch_age.load(std::memory_order_relaxed);
  if (std::exchange(checked, now) == now) return;
  for (Scratch& slot : thread_scratch()) {
    if (slot.age != now) slot.release();
  }
}

/// The kernel selection of the thread that runs the op of a body.
struct KernelState {
  KernelTable* table = &kernel_table();
  bool inference = is_inference();
};

/// Makes a body choose kernels like the op's thread. No scratch is in use when the first body on a thread begins.
struct BodyScope {
  explicit BodyScope(const KernelState& caller) : table(caller.table), inference(caller.inference) {
    if (body_depth++ == 0) release_old_scratch();
  }
  ~BodyScope() { --body_depth; }
  const UseKernelTable table;
  const ScopedValue<thread_state::inference> inference;
};

}  // namespace

void set_engine_threads(int threads) {
  CurrentPool& now = current();
  const MutexLock lock(now.mutex);
  threads = std::max(threads, 1);
  throw_if_error(
      check_threads("engine", threads));  // oneTBB would terminate the process, not always with an exception
  now.pool = std::make_shared<TrainingPool>(threads, true);
}

int engine_threads() {
  return training_pool()->threads();
}

void parallel_slices(int64_t count, const std::function<void(int64_t slice)>& body) {
  if (count <= 0) return;
  if (body_depth > 0) {
    for (int64_t slice = 0; slice < count; ++slice) body(slice);
    return;
  }
  const std::shared_ptr<TrainingPool> pool = training_pool();
  const KernelState caller;
  pool->arena().execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, count, 1),
        [&](const tbb::blocked_range<int64_t>& range) {
          const BodyScope scope(caller);
          for (int64_t slice = range.begin(); slice < range.end(); ++slice) body(slice);
        },
        tbb::simple_partitioner());
  });
}

void parallel_ranges(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  parallel_slices((n + grain - 1) / grain,
                  [&](int64_t slice) { body(slice * grain, std::min(n, (slice + 1) * grain)); });
}

std::byte* worker_scratch(int slot, size_t bytes) {
  Scratch& mine = thread_scratch().at(static_cast<size_t>(slot));
  const uint64_t now = scratch_age.load(std::memory_order_relaxed);
  if (std::exchange(mine.age, now) != now) mine.release();
  if (mine.size >= bytes && mine.data != nullptr) return mine.data;
  mine.grow(std::max<size_t>(bytes, 1));
  size_t all = 0;
  for (const Scratch& each : thread_scratch()) all += each.age == now ? each.size : 0;
  size_t largest = scratch_largest.load();
  while (all > largest && !scratch_largest.compare_exchange_weak(largest, all)) continue;
  return mine.data;
}

void renew_worker_scratch() {
  scratch_largest = 0;
  ++scratch_age;
}

size_t worker_scratch_bytes() {
  return scratch_total.load();
}

size_t largest_worker_scratch_bytes() {
  return scratch_largest.load();
}

SingleOpenMpThread::SingleOpenMpThread() : former_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

SingleOpenMpThread::~SingleOpenMpThread() {
  omp_set_num_threads(former_);
}

}  // namespace dlpipe::engine
