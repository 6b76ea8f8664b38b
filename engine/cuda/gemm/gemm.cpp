#include "engine/cuda/gemm/gemm.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "base/current_cuda.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/cuda/gemm/cublas_lt.h"
#include "engine/cuda/libraries/loaded_library.h"

namespace dlpipe::engine::cuda {
namespace {

/// cuBLAS, loaded for the first product that cublasLt doesn't support. A program that trains on the CPU never loads its half a
/// gigabyte.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasGetStatusName) status_name;
  decltype(&cublasGemmStridedBatchedEx_64) gemm;
};

Cublas load_cublas() {
  LoadedLibrary library({"libcublas.so.13", "libcublas.so.12"});
  Cublas out{};
  library.find("cublasCreate_v2", out.create);
  library.find("cublasDestroy_v2", out.destroy);
  library.find("cublasSetMathMode", out.set_math_mode);
  library.find("cublasSetStream_v2", out.set_stream);
  library.find("cublasSetWorkspace_v2", out.set_workspace);
  library.find("cublasGetStatusName", out.status_name);
  library.find("cublasGemmStridedBatchedEx_64", out.gemm);
  if (!library.status().ok()) {
    throw Error(Status(library.status().code(),
                       concat("[cuda] gemm: ", library.status().message(),
                              "; install cuBLAS of CUDA 12 or 13, or add its folder to LD_LIBRARY_PATH")));
  }
  return out;
}

const Cublas& cublas() {
  static const Cublas loaded = load_cublas();
  return loaded;
}

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Status(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
                     concat("[cuda] gemm: ", cublas().status_name(status))));
}
void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw Error(Status(ErrorCode::kInternal,
                     concat("[cuda] gemm: ", cudaGetErrorName(error), ": ", cudaGetErrorString(error))));
}

/// The workspace of the calling thread's products on the first device. They share it, because they run in stream order.
const Tensor& workspace() {
  constexpr int64_t kBytes = int64_t{32} << 20;  // what cuBLAS recommends on Hopper
  current_stream();                              // created first, so that it outlives the workspace
  static thread_local const Tensor t_workspace =
      Tensor::empty({{kBytes}, DType::kU8}, *value_or_throw(cuda_device(0)));
  return t_workspace;
}

/// A thread's handle on the first device, the device of its stream.
class Handle {
 public:
  Handle(CUstream_st* stream, const Tensor& workspace) {
    check(cublas().create(&handle_));
    // Partial sums of bf16 and f16 products that are cut along k stay f32.
    check(cublas().set_math_mode(
        handle_,
        static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    check(cublas().set_stream(handle_, stream));  // before set_workspace(), which it would undo
    check(cublas().set_workspace(handle_, workspace.raw(), workspace.size_bytes()));
  }
  ~Handle() { cublas().destroy(handle_); }  // waits for the device, after which the workspace is unused
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

cublasHandle_t current_handle() {
  static thread_local const Handle t_handle(current_stream(), workspace());  // both outlive it
  return t_handle.get();
}

}  // namespace

cudaDataType_t type_of(DType dtype) {
  if (dtype == DType::kF16) return CUDA_R_16F;
  return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
}

namespace {

cublasOperation_t operation(const GemmMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// For k = 0. BLAS may leave c unchanged then.
void zero(int64_t m, int64_t n, const GemmResult& c, int64_t batch) {
  const size_t size = dtype_size(c.dtype);
  for (int64_t i = 0; i < batch; ++i) {
    check(cudaMemset2DAsync(static_cast<std::byte*>(c.data) + static_cast<size_t>(i * c.stride) * size,
                            static_cast<size_t>(c.row) * size, 0, static_cast<size_t>(n) * size,
                            static_cast<size_t>(m), current_stream()));
  }
}

void multiply_by_cublas(const GemmProblem& p) {
  const float one = 1;
  const float former = p.c.accumulate ? 1.0f : 0.0f;
  // cuBLAS sees row-major memory as the transposed matrix: c^T = b^T a^T.
  check(cublas().gemm(current_handle(), operation(p.b), operation(p.a), p.n, p.m, p.k, &one, p.b.data,
                      type_of(p.dtype), p.b.row, p.b.stride, p.a.data, type_of(p.dtype), p.a.row, p.a.stride,
                      &former, p.c.data, type_of(p.c.dtype), p.c.row, p.c.stride, p.batch,
                      p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/// Whether cublasLt computed the product.
bool multiply_first_by_lt(const GemmProblem& p) {
  const GemmLibrary library = thread_state::gemm_library();
  if (library == GemmLibrary::kCublas) return false;
  const Status status = multiply_by_lt(p, workspace());
  if (!status.ok() && (status.code() != ErrorCode::kUnsupported || library == GemmLibrary::kCublasLt))
    throw Error(status);
  return status.ok();
}

}  // namespace

GemmLibrary& thread_state::gemm_library() {
  thread_local GemmLibrary t_library = GemmLibrary::kAuto;
  return t_library;
}

// This is host code, where grid.h would select `simulated`, so the namespace is named here.
namespace on_device {

void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const GemmResult& c,
          DType dtype, int64_t batch) {
  if (m == 0 || n == 0 || batch == 0) return;
  const CurrentCuda first(0);
  if (k == 0) {
    if (!c.accumulate) zero(m, n, c, batch);
    return;
  }
  const GemmProblem problem = {m, n, k, a, b, c, dtype, batch, dtype == DType::kF32 && tf32_allowed()};
  if (!multiply_first_by_lt(problem)) multiply_by_cublas(problem);
}

bool gemm_with(GemmEpilogue epilogue, void* vector, int64_t m, int64_t n, int64_t k, const GemmMatrix& a,
               const GemmMatrix& b, const GemmResult& c, DType dtype) {
  if (m == 0 || n == 0 || k == 0) return false;
  const CurrentCuda first(0);
  return multiply_first_by_lt(
      {m, n, k, a, b, c, dtype, 1, dtype == DType::kF32 && tf32_allowed(), epilogue, vector});
}

}  // namespace on_device
}  // namespace dlpipe::engine::cuda
