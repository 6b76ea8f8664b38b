// From a graph of operations to something that runs: which of cuDNN's engines is taken, its plan, the calling
// thread's handle. One thread's, all of it. Host code: no CUDA headers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/cuda/cudnn/cudnn.h"
#include "dlpipe/engine/cuda/cudnn/cudnn_graph.h"
#include "dlpipe/engine/cuda/libraries/plan_cache.h"

namespace dlpipe::engine::cuda::cudnn {

/// What cuDNN calls f32, bf16 and f16.
DataType data_type(DType dtype);

/// The calling thread's handle on the first device, or why there is none, which the next call finds out anew. Its work goes into
/// the thread's stream.
Result<Context*> thread_handle();

struct Plan;
/// Whether an engine that says this of its sums is taken.
using TakesNotes = std::function<bool(std::span<const NumericalNote> notes)>;

/// Descriptors of an operation graph. They refer to one another and stay where they are.
class Graph {
 public:
  /// Without a handle it can't be finished.
  explicit Graph(Context* handle) : handle_(handle) {}

  const Descriptor& keep(Descriptor part);
  /// Made once an id.
  const Descriptor& tensor(const GraphTensor& tensor);
  /// Keeps it, final, as the next operation.
  void operation(Descriptor operation);
  /// All of them, in their order.
  void add(const Operations& operations);
  /// No more comes; the status of the first part that failed.
  Status finish();

 private:
  friend Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes);

  Context* handle_;
  std::deque<Descriptor> parts_;  // the graph last
  std::map<int64_t, const Descriptor*> tensors_;
  std::vector<Backend*> operations_;
  std::vector<std::pair<int64_t, float>> constants_;
};

/// An execution plan and all it was made of.
struct Plan {
  std::deque<Descriptor> parts;
  std::vector<std::pair<int64_t, float>> constants;  // tensors' ids and values
  Descriptor plan;                                   // gone before its parts
  int64_t workspace_bytes = 0;
};

/// A plan for a graph that was not finished yet, by the first engine that `takes` likes the notes of, best
/// first: by heuristics A, then of those that take nearly everything. An engine that isn't deterministic or
/// doesn't sum in f32 is never taken. `what` is for errors: "convolution". kUnsupported: cuDNN has no such engine. An engine that
/// fails otherwise is passed over, but one that wants memory is what the caller may find.
Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes);

/// Puts the plan's work into the thread's stream. Throws Error.
void execute(const Plan& plan, std::span<const Binding> bindings, std::string_view what);

/// A thread's plans, kept by what they are for: built once, and what cuDNN has no engine for stays refused.
template <class Key>
class Planner {
 public:
  /// `most`: plans kept, at least 1.
  explicit Planner(size_t most) : plans_(most) {
    (void)thread_handle();
  }  // so that the handle goes after the plans

  /// Calls build(handle) for a Result<Plan> where there is none. Throws what is no refusal (plan_cache.h).
  template <class Build>
  const Result<Plan>& plan(const Key& key, const Build& build) {
    if (const Result<Plan>* known = plans_.find(key, is_capturing())) return *known;
    // Kernels that were compiled for the plan that goes may still run.
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
