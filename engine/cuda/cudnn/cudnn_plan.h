// From a graph of operations to something that runs: the choice of cuDNN's engine, its plan, and the calling
// thread's handle. Everything is for one thread. Host code: no CUDA headers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/dtype.h"
#include "engine/core/allocator.h"
#include "engine/core/device_memory.h"
#include "engine/cuda/cudnn/cudnn.h"
#include "engine/cuda/cudnn/cudnn_graph.h"
#include "engine/cuda/libraries/loaded_library.h"

namespace dlpipe::engine::cuda::cudnn {

/// cuDNN's names of f32, bf16 and f16.
DataType data_type(DType dtype);

/// The calling thread's handle on the first device, or the error, after which the next call tries again. Its work is queued in
/// the thread's stream.
Result<Context*> thread_handle();

struct Plan;
/// Whether to accept an engine with these notes about its sums.
using TakesNotes = std::function<bool(std::span<const NumericalNote> notes)>;

/// Descriptors of an operation graph. They refer to one another and never move.
class Graph {
 public:
  /// finish() needs a handle.
  explicit Graph(Context* handle) : handle_(handle) {}

  const Descriptor& keep(Descriptor part);
  /// Created once per id.
  const Descriptor& tensor(const GraphTensor& tensor);
  /// Adds a finalized descriptor as the next operation.
  void operation(Descriptor operation);
  /// Adds all of them, in order.
  void add(const Operations& operations);
  /// Finishes the graph; returns the status of the first part that failed.
  Status finish();

 private:
  friend Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes);

  Context* handle_;
  std::deque<Descriptor> parts_;  // the graph last
  std::map<int64_t, const Descriptor*> tensors_;
  std::vector<Backend*> operations_;
  std::vector<std::pair<int64_t, float>> constants_;
};

/// An execution plan and everything it refers to.
struct Plan {
  std::deque<Descriptor> parts;
  std::vector<std::pair<int64_t, float>> constants;  // tensors' ids and values
  Descriptor plan;                                   // destroyed before its parts
  int64_t workspace_bytes = 0;
};

/// Builds a plan for an unfinished graph, with the first engine that `takes` accepts, best first: by heuristics A,
/// then fallback engines. Engines that aren't deterministic or don't sum in f32 are never used. `what` is for errors:
/// "convolution". kUnsupported: cuDNN has no such engine. Skips an engine that fails for another reason, except for lack of
/// memory, which the caller may be able to free.
Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes);

/// Queues the plan's work in the thread's stream. Throws Error.
void execute(const Plan& plan, std::span<const Binding> bindings, std::string_view what);

/// A thread's plans by key: each is built once, and it also remembers keys without an engine.
template <class Key>
class Planner {
 public:
  /// `most`: plans kept, at least 1.
  explicit Planner(size_t most) : plans_(most) {
    (void)thread_handle();
  }  // so that the handle is destroyed after the plans

  /// Calls build(handle) for a Result<Plan> if there is none. Throws errors other than kUnsupported
  /// (libraries/loaded_library.h).
  template <class Build>
  const Result<Plan>& plan(const Key& key, const Build& build) {
    if (const Result<Plan>* known = plans_.find(key, is_capturing())) return *known;
    // Kernels that were compiled for the evicted plan may still run.
    Device& device = *value_or_throw(cuda_device(0));
    if (plans_.is_full()) synchronize(device);
    const auto build_here = [&]() -> Result<Plan> {
      DLPIPE_ASSIGN_OR_RETURN(Context* const handle, thread_handle());
      return build(handle);
    };
    return insert_built(plans_, key, build_here, [&] { return release_cached_blocks(device); });
  }

 private:
  PlanCache<Key, Result<Plan>> plans_;
};

}  // namespace dlpipe::engine::cuda::cudnn
