// The meaning of the descriptors: https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api. Which sums are
// the same on every run: "Results reproducibility" there, and cublasLtReductionScheme_t.
#include "engine/cuda/gemm/cublas_lt.h"

#include <cublasLt.h>

#include <array>
#include <limits>
#include <memory>

#include "base/text.h"
#include "engine/core/allocator.h"
#include "engine/cuda/grid/stream.h"
#include "engine/cuda/libraries/loaded_library.h"

namespace dlpipe::engine::cuda {
namespace {

constexpr size_t kMostPlans = 1024;  // per thread; a plan has a few hundred bytes
constexpr int kCandidates = 8;       // requested from the heuristics, best first

struct LtFunctions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
};

Result<LtFunctions> load() {
  LoadedLibrary library({"libcublasLt.so.13", "libcublasLt.so.12"});
  LtFunctions out{};
  library.find("cublasLtCreate", out.create);
  library.find("cublasLtDestroy", out.destroy);
  library.find("cublasLtGetStatusName", out.status_name);
  library.find("cublasLtMatmul", out.matmul);
  library.find("cublasLtMatmulAlgoGetHeuristic", out.heuristic);
  library.find("cublasLtMatmulDescCreate", out.create_operation);
  library.find("cublasLtMatmulDescDestroy", out.destroy_operation);
  library.find("cublasLtMatmulDescSetAttribute", out.set_operation);
  library.find("cublasLtMatrixLayoutCreate", out.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", out.destroy_layout);
  library.find("cublasLtMatrixLayoutSetAttribute", out.set_layout);
  library.find("cublasLtMatmulPreferenceCreate", out.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", out.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", out.set_preference);
  if (!library.status().ok())
    return Status(library.status().code(), concat("[cuda] cublasLt: ", library.status().message()));
  return out;
}
const Result<LtFunctions>& lt() {
  static const Result<LtFunctions> loaded = load();
  return loaded;
}

Status status_of(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  ErrorCode code = ErrorCode::kInternal;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    code = ErrorCode::kUnsupported;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = ErrorCode::kOutOfMemory;
  return Status(code, concat("[cuda] cublasLt: ", what, ": ", lt()->status_name(status)));
}

struct DestroyLt {
  void operator()(cublasLtHandle_t handle) const { lt()->destroy(handle); }
  void operator()(cublasLtMatmulDesc_t operation) const { lt()->destroy_operation(operation); }
  void operator()(cublasLtMatrixLayout_t layout) const { lt()->destroy_layout(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const { lt()->destroy_preference(preference); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyLt>;

cublasLtEpilogue_t epilogue_of(GemmEpilogue epilogue) {
  if (epilogue == GemmEpilogue::kBias) return CUBLASLT_EPILOGUE_BIAS;
  return epilogue == GemmEpilogue::kSumsOfA ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT;
}

/// Collects the status of several calls; the first failure counts.
class Calls {
 public:
  void operator()(cublasStatus_t status, const char* what) {
    if (status_.ok()) status_ = status_of(status, what);
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

struct LtPlan {
  Owned<cublasLtMatmulDesc_t> operation;
  Owned<cublasLtMatrixLayout_t> left, right, result;
  cublasLtMatmulAlgo_t algorithm;
};

Owned<cublasLtMatmulDesc_t> make_operation(const GemmProblem& p, const LtOperands& of, Calls& check) {
  cublasLtMatmulDesc_t operation = nullptr;
  check(lt()->create_operation(&operation, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                               CUDA_R_32F),
        "an operation");
  Owned<cublasLtMatmulDesc_t> out(operation);
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    if (out != nullptr) check(lt()->set_operation(out.get(), name, &value, sizeof value), "an operation");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, of.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, of.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
  if (p.epilogue != GemmEpilogue::kNone) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.c.dtype));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.vector);  // heuristics check its alignment
  }
  return out;
}

Owned<cublasLtMatrixLayout_t> make_layout(const LtMatrix& matrix, int64_t batch, Calls& check) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(lt()->create_layout(&layout, type_of(matrix.dtype), static_cast<uint64_t>(matrix.rows),
                            static_cast<uint64_t>(matrix.columns), matrix.leading),
        "a layout");
  Owned<cublasLtMatrixLayout_t> out(layout);
  if (batch == 1 || out == nullptr) return out;
  const auto count = static_cast<int32_t>(batch);
  check(lt()->set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "a layout");
  check(lt()->set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.stride,
                         sizeof matrix.stride),
        "a layout");
  return out;
}

/// Allows products that aren't cut along k, or whose partial sums, f32 in the workspace, a second kernel adds in one order.
Owned<cublasLtMatmulPreference_t> make_preference(const GemmProblem& p, uint64_t workspace_bytes,
                                                  Calls& check) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt()->create_preference(&preference), "a preference");
  Owned<cublasLtMatmulPreference_t> out(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    if (out != nullptr) check(lt()->set_preference(out.get(), name, &value, sizeof value), "a preference");
  };
  constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const auto alignment = static_cast<uint32_t>(common_alignment(p));
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  return out;
}

Result<LtPlan> build_plan(cublasLtHandle_t handle, const GemmProblem& p, uint64_t workspace_bytes) {
  const LtOperands of = operands_of(p);
  Calls check;
  LtPlan plan{make_operation(p, of, check),
              make_layout(of.left, p.batch, check),
              make_layout(of.right, p.batch, check),
              make_layout(of.result, p.batch, check),
              {}};
  const Owned<cublasLtMatmulPreference_t> preference = make_preference(p, workspace_bytes, check);
  if (!check.status().ok()) return check.status();
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  check(lt()->heuristic(handle, plan.operation.get(), plan.left.get(), plan.right.get(), plan.result.get(),
                        plan.result.get(), preference.get(), kCandidates, found.data(), &count),
        "heuristics");
  if (!check.status().ok()) return check.status();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize > workspace_bytes) continue;
    plan.algorithm = found[i].algo;
    return plan;
  }
  return Status(ErrorCode::kUnsupported, "[cuda] cublasLt: no deterministic kernel for this product");
}

/// A thread's plans and its handle on the first device, the device of its stream. The first plan creates the handle.
class LtMultiplier {
 public:
  explicit LtMultiplier(CUstream_st* stream) : stream_(stream), plans_(kMostPlans) {}

  /// Throws errors other than kUnsupported (libraries/loaded_library.h).
  Status run(const GemmProblem& p, const Tensor& workspace) {
    const uint64_t workspace_bytes = workspace.size_bytes();
    const GemmKey key = key_of(p);
    const Result<LtPlan>* plan = plans_.find(key);
    if (plan == nullptr) {
      const auto build = [&]() -> Result<LtPlan> {
        DLPIPE_RETURN_IF_ERROR(open());
        return build_plan(handle_.get(), p, workspace_bytes);
      };
      plan = &insert_built(plans_, key, build, [&] { return release_cached_blocks(workspace.device()); });
    }
    if (!plan->ok()) return plan->status();
    const LtPlan& with = **plan;
    Calls check;
    if (p.epilogue != GemmEpilogue::kNone)
      check(lt()->set_operation(with.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.vector,
                                sizeof p.vector),
            "an operation");
    const float one = 1;
    const float former = p.c.accumulate ? 1.0f : 0.0f;
    check(lt()->matmul(handle_.get(), with.operation.get(), &one, p.b.data, with.left.get(), p.a.data,
                       with.right.get(), &former, p.c.data, with.result.get(), p.c.data, with.result.get(),
                       &with.algorithm, workspace.raw(), workspace_bytes, stream_),
          "a product");
    if (check.status().code() == ErrorCode::kUnsupported)
      *plans_.find(key) = check.status();  // it will never be supported
    return check.status();
  }

 private:
  Status open() {
    DLPIPE_RETURN_IF_ERROR(lt().status());
    if (handle_ != nullptr) return {};
    cublasLtHandle_t handle = nullptr;
    DLPIPE_RETURN_IF_ERROR(status_of(lt()->create(&handle), "cublasLtCreate"));
    handle_.reset(handle);
    return {};
  }

  CUstream_st* stream_;
  Owned<cublasLtHandle_t> handle_;
  PlanCache<GemmKey, Result<LtPlan>> plans_;
};

}  // namespace

Status multiply_by_lt(const GemmProblem& problem, const Tensor& workspace) {
  if (problem.batch > std::numeric_limits<int32_t>::max())
    return Status(ErrorCode::kUnsupported, "[cuda] cublasLt: more than 2^31 - 1 matrices");
  CUstream_st* const stream =
      current_stream();  // one per thread; created first, so that it outlives the handle
  static thread_local LtMultiplier t_multiplier(stream);
  return t_multiplier.run(problem, workspace);
}

}  // namespace dlpipe::engine::cuda
