#include "engine/cuda/cudnn/cudnn_attention.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/current_cuda.h"
#include "dlpipe/op.h"
#include "engine/cuda/cudnn/cudnn_plan.h"

namespace dlpipe::engine::cuda {
namespace {

constexpr size_t kMostAttentionPlans = 64;  // per thread: a transformer's step uses two

/// The major number of the first device's compute capability; 0 if unknown.
int compute_capability() {
  int major = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  return error == cudaSuccess ? major : 0;
}

Result<cudnn::Plan> build_plan(cudnn::Context* handle, const AttentionProblem& p) {
  DLPIPE_RETURN_IF_ERROR(cudnn_takes_on(p, cudnn::library()->version(), compute_capability()));
  cudnn::Graph graph(handle);
  graph.add(AttentionGraph(p, cudnn::data_type(p.dtype)).operations());
  return cudnn::build_plan(std::move(graph), "attention", [](auto) { return true; });
}

const Result<cudnn::Plan>& plan_of(const AttentionProblem& p) {
  static thread_local cudnn::Planner<AttentionKey> t_planner(kMostAttentionPlans);
  return t_planner.plan(key_of(p), [&](cudnn::Context* handle) { return build_plan(handle, p); });
}

}  // namespace

// This is host code, where grid.h would select `simulated`, so the namespace is named here.
namespace on_device {

bool attend(const AttentionProblem& problem) {
  if (cudnn_use() == Cudnn::kNever) return false;
  Status refusal = cudnn_takes(problem);
  if (refusal.ok()) {
    const CurrentCuda first(0);
    const Result<cudnn::Plan>& plan = plan_of(problem);
    if (plan.ok()) {
      cudnn::execute(*plan, AttentionGraph::bindings(problem), "self_attention");
      return true;
    }
    refusal = plan.status();
  }
  if (cudnn_use() == Cudnn::kOnly) throw Error(refusal);
  return false;
}

}  // namespace on_device
}  // namespace dlpipe::engine::cuda
