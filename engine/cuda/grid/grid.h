// CUDA kernels are written as phases over the threads of a block. nvcc compiles a phase to the code of one
// thread. Tests compile the same file as plain C++, where a phase is a loop over the block's threads and a grid
// is a loop over its blocks, so that indices, tails and reductions are tested without a GPU.
//
//   struct ScaleRows {                                        // a kernel is a struct of its arguments
//     static constexpr const char* kName = "scale_rows";
//     static constexpr int kThreads = 256;                    // of a block
//     struct Shared { float factor; };                        // or: using Shared = NoShared;
//     float* rows; int64_t columns;
//     template <class Block>
//     DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
//       float* row = rows + block.index() * columns;
//       block.each([&](int thread) { if (thread == 0) shared.factor = 1 / row[0]; });
//       block.each([&](int thread) {                          // begins after all threads ended the previous phase
//         for (int64_t i = thread; i < columns; i += kThreads) row[i] *= shared.factor;
//       });
//     }
//   };
//   launch(ScaleRows{rows, columns}, row_count);              // on the calling thread's stream
//
// Outside of phases, a kernel only computes values that are the same for all threads of a block, and doesn't store.
// Values that a thread keeps from one phase to the next are in a Block::PerThread. Threads of one phase must not read
// what other threads of that phase write. On the GPU, a phase of a kernel with shared memory ends with a barrier.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__CUDACC__)  // nvcc includes its own headers
#define DLPIPE_DEVICE __device__ __forceinline__
#define DLPIPE_GRID_NAMESPACE on_device
#else
#include <array>
#include <functional>
#include <memory>
#define DLPIPE_DEVICE inline
#define DLPIPE_GRID_NAMESPACE simulated
#endif

#include "base/current_cuda.h"
#include "engine/cuda/grid/stream.h"

namespace dlpipe::engine::cuda {
// This namespace has two versions with the same names. A program may contain both.
inline namespace DLPIPE_GRID_NAMESPACE {

/// For kernels whose threads don't communicate.
struct NoShared {};

inline constexpr int kWarp = 32;

/// Shared memory of Block::reduce.
template <class T, int kThreads>
struct ReduceSpace {
  static_assert(kThreads % kWarp == 0);
  T warps[kThreads / kWarp];
};

#if defined(__CUDACC__)

template <int kThreads_, bool kShares>
class Block {
 public:
  static constexpr int kThreads = kThreads_;

  /// One value per thread, kept between phases.
  template <class T>
  class PerThread {
   public:
    DLPIPE_DEVICE T& operator[](int) { return value_; }

   private:
    T value_;
  };

  DLPIPE_DEVICE int64_t index() const { return blockIdx.x; }
  DLPIPE_DEVICE int64_t count() const { return gridDim.x; }

  /// One phase: phase(thread) for each thread of the block.
  template <class Phase>
  DLPIPE_DEVICE void each(const Phase& phase) {
    phase(static_cast<int>(threadIdx.x));
    if constexpr (kShares) __syncthreads();
  }

  /// Combines all threads' values by op; the result is the same for all threads. Butterflies in each warp,
  /// then warp after warp. A phase of its own.
  template <class T, class Op>
  DLPIPE_DEVICE T reduce(PerThread<T>& values, const Op& op, ReduceSpace<T, kThreads>& space) {
    static_assert(kShares);
    T value = values[0];
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
      value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
    if (threadIdx.x % kWarp == 0) space.warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    T all = space.warps[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) all = op(all, space.warps[warp]);
    __syncthreads();  // the space may be used again
    return all;
  }
};

template <class Kernel>
inline constexpr bool kSharesMemory = !std::is_same_v<typename Kernel::Shared, NoShared>;

template <class Kernel>
using BlockOf = Block<Kernel::kThreads, kSharesMemory<Kernel>>;

#else

template <int kThreads_>
class Block {
 public:
  static constexpr int kThreads = kThreads_;

  Block(int64_t index, int64_t count) : index_(index), count_(count) {}

  template <class T>
  class PerThread {
   public:
    PerThread() { std::memset(static_cast<void*>(values_.data()), 0xff, sizeof values_); }
    T& operator[](int thread) { return values_[static_cast<size_t>(thread)]; }

   private:
    std::array<T, static_cast<size_t>(kThreads_)> values_;
  };

  int64_t index() const { return index_; }
  int64_t count() const { return count_; }

  template <class Phase>
  void each(const Phase& phase) {
    // Threads run out of order, because kernels must not depend on the order.
    for (int i = 0; i < kThreads; ++i) phase((i * 37 + 11) % kThreads);
  }

  template <class T, class Op>
  T reduce(PerThread<T>& values, const Op& op, ReduceSpace<T, kThreads>& space) {
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      std::array<T, kWarp> lanes;
      for (int lane = 0; lane < kWarp; ++lane) lanes[static_cast<size_t>(lane)] = values[warp * kWarp + lane];
      for (size_t distance = kWarp / 2; distance > 0; distance /= 2) {
        const std::array<T, kWarp> before = lanes;
        for (size_t lane = 0; lane < kWarp; ++lane) lanes[lane] = op(before[lane], before[lane ^ distance]);
      }
      space.warps[warp] = lanes[0];
    }
    T all = space.warps[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) all = op(all, space.warps[warp]);
    return all;
  }

 private:
  int64_t index_;
  int64_t count_;
};

template <class Kernel>
using BlockOf = Block<Kernel::kThreads>;

#endif

/// A kernel, as in the example above. Its bytes are passed to the device.
template <class Kernel>
concept GridKernel = std::is_trivially_copyable_v<Kernel> &&
    requires(const Kernel& kernel, BlockOf<Kernel>& block, typename Kernel::Shared& shared) {
  { Kernel::kName } -> std::convertible_to<const char*>;
  { kernel(block, shared) } -> std::same_as<void>;
} && Kernel::kThreads % kWarp == 0;

#if defined(__CUDACC__)

template <GridKernel Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) run_kernel(const __grid_constant__ Kernel kernel) {
  BlockOf<Kernel> block;
  if constexpr (kSharesMemory<Kernel>) {
    __shared__ typename Kernel::Shared shared;
    kernel(block, shared);
  } else {
    NoShared none;
    kernel(block, none);
  }
}

/// Queues `blocks` blocks of the kernel in the calling thread's stream. Throws an Error that names the kernel.
template <GridKernel Kernel>
void launch(const Kernel& kernel, int64_t blocks) {
  if (blocks == 0) return;
  check_grid(Kernel::kName, blocks);
  const CurrentCuda first(0);  // another library may have changed the thread's current GPU
  run_kernel<<<static_cast<unsigned>(blocks), Kernel::kThreads, 0, current_stream()>>>(kernel);
  check_launch(Kernel::kName);
}

#else

/// For tests: a launch's parameters, and an observer of launches that returns whether to run them.
struct SimulatedLaunch {
  const char* kernel;
  int64_t blocks;
  int threads;  // per block
};
inline std::function<bool(const SimulatedLaunch&)> simulated_watch;

/// For tests: queues simulated kernels in their device's stream instead of running them immediately.
using SimulatedQueue = void (*)(const char* name, std::function<void()> work);
inline SimulatedQueue simulated_queue = nullptr;

/// Runs the kernel's blocks one after another, in an order that kernels must not rely on.
template <GridKernel Kernel>
void run_blocks(const Kernel& kernel, int64_t blocks) {
  static_assert(Kernel::kThreads % 37 != 0);
  const auto shared = std::make_unique<typename Kernel::Shared>();
  for (int64_t i = 0; i < blocks; ++i) {
    std::memset(static_cast<void*>(shared.get()), 0xff, sizeof *shared);  // uninitialised floats are NaN
    BlockOf<Kernel> block(blocks - 1 - i, blocks);
    kernel(block, *shared);
  }
}

template <GridKernel Kernel>
void launch(const Kernel& kernel, int64_t blocks) {
  if (simulated_watch && !simulated_watch({Kernel::kName, blocks, Kernel::kThreads})) return;
  if (simulated_queue == nullptr) return run_blocks(kernel, blocks);
  simulated_queue(Kernel::kName, [kernel, blocks] { run_blocks(kernel, blocks); });
}

#endif

/// The number of blocks of `per_block` items for `items`.
constexpr int64_t blocks_for(int64_t items, int64_t per_block) {
  return (items + per_block - 1) / per_block;
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda

/// Defines the kernels of an op on CUDA, e.g. DLPIPE_CUDA_KERNELS(relu) = {forward, backward, supports};
#if defined(__CUDACC__)
#define DLPIPE_CUDA_KERNELS(name)   \
  extern const Kernels name##_cuda; \
  const Kernels name##_cuda
#define DLPIPE_CUDA_KERNELS_OF(name) name##_cuda  // to call another op's kernels
#else
#define DLPIPE_CUDA_KERNELS(name)             \
  extern const Kernels name##_cuda_simulated; \
  const Kernels name##_cuda_simulated
#define DLPIPE_CUDA_KERNELS_OF(name) name##_cuda_simulated
#endif
