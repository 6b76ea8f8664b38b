// Turns a graph of operations into a plan that runs: chooses cuDNN's engine and keeps the plan and the calling
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

/// cuDNN's types for f32, bf16 and f16.
DataType data_type(DType dtype);

/// The calling thread's handle on the first device, whose work is queued in the thread's stream. After an error, the next
/// call tries again.
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
  /// The descriptor of the tensor, created once per id.
  const Descriptor& tensor(const GraphTensor& tensor);
  /// Adds a finalized descriptor as the next operation.
  void operation(Descriptor operation);
  /// Adds all operations, in order.
  void add(const Operations& operations);
  /// Finishes the graph; returns the status of the first part that failed.
  Status finish();

 private:
  friend Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes);

  Context* handle_;
  std::deque<Descriptor> parts_;  // the graph is the last one
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

/// Builds a plan for an unfinished graph with the first engine that `takes` accepts: the engines of heuristics A, best
/// first, then the fallback engines. Never uses engines that aren't deterministic or don't sum in f32. `what` is for error
/// messages ("convolution"). kUnsupported: cuDNN has no such engine. An engine that fails for another reason is skipped,
/// unless memory ran out, because the caller may be able to free some.
Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes);

/// Queues the plan's work in the thread's stream. Throws Error.
void execute(const Plan& plan, std::span<const Binding> bindings, std::string_view what);

/// A thread's plans by key. Each is built once. Keys without an engine are remembered, too.
template <class Key>
class Planner {
 public:
  /// `most`: the number of plans to keep, at least 1.
  explicit Planner(size_t most) : plans_(most) {
    (void)thread_handle();
  }  // so that the handle is destroyed after the plans

  /// The plan for a key. If there is none, calls build(handle), which returns a Result<Plan>. Throws errors
  /// other than kUnsupported (libraries/loaded_library.h).
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
