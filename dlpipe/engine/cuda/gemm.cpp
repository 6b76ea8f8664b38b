#include "dlpipe/engine/cuda/gemm.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine::cuda {
namespace {

/// cuBLAS, loaded when the first product is asked for: a program that trains on the CPU needs none of its
/// half a gigabyte.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasGetStatusName) status_name;
  decltype(&cublasGemmStridedBatchedEx_64) gemm;
};

template <class Function>
void find(void* library, const char* name, Function& to) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr)
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[cuda] gemm: this cuBLAS has no ", name, "; take that of CUDA 12 or 13")));
  to = reinterpret_cast<Function>(symbol);
}

Cublas load_cublas() {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    throw Error(Status(
        ErrorCode::kUnsupported,
        concat("[cuda] gemm: ", dlerror(), "; install cuBLAS or put its folder into LD_LIBRARY_PATH")));
  }
  Cublas out{};
  find(library, "cublasCreate_v2", out.create);
  find(library, "cublasDestroy_v2", out.destroy);
  find(library, "cublasSetMathMode", out.set_math_mode);
  find(library, "cublasSetStream_v2", out.set_stream);
  find(library, "cublasSetWorkspace_v2", out.set_workspace);
  find(library, "cublasGetStatusName", out.status_name);
  find(library, "cublasGemmStridedBatchedEx_64", out.gemm);
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

/// A thread's handle on the first device, where its stream is. Its products are in the stream's order, so
/// they share a workspace.
class Handle {
 public:
  explicit Handle(CUstream_st* stream)
      : workspace_(Tensor::empty({{kWorkspaceBytes}, DType::kU8}, *value_or_throw(cuda_device(0)))) {
    check(cublas().create(&handle_));
    // Sums of bf16 products that are cut along k stay f32.
    check(cublas().set_math_mode(
        handle_,
        static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    check(cublas().set_stream(handle_, stream));  // before the workspace: it puts cuBLAS's own back
    check(cublas().set_workspace(handle_, workspace_.raw(), kWorkspaceBytes));
  }
  ~Handle() { cublas().destroy(handle_); }  // waits for the device: nothing uses the workspace any more
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cublasHandle_t get() const { return handle_; }

 private:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what cuBLAS asks for on Hopper
  Tensor workspace_;
  cublasHandle_t handle_ = nullptr;
};

cublasHandle_t current_handle() {
  CUstream_st* const stream = current_stream();  // one a thread; asked for first, it outlives the handle
  static thread_local const Handle t_handle(stream);
  return t_handle.get();
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
}
cublasOperation_t operation(const GemmMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// For k = 0, where BLAS leaves what is there or not, as it likes.
void zero(int64_t m, int64_t n, const GemmResult& c, int64_t batch) {
  const size_t size = dtype_size(c.dtype);
  for (int64_t i = 0; i < batch; ++i) {
    check(cudaMemset2DAsync(static_cast<std::byte*>(c.data) + static_cast<size_t>(i * c.stride) * size,
                            static_cast<size_t>(c.row) * size, 0, static_cast<size_t>(n) * size,
                            static_cast<size_t>(m), current_stream()));
  }
}

}  // namespace

// This file is host code, which grid.h takes for the simulated grid's.
namespace on_device {

void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const GemmResult& c,
          DType dtype, int64_t batch, bool tf32) {
  if (m == 0 || n == 0 || batch == 0) return;
  if (k == 0) {
    if (!c.accumulate) zero(m, n, c, batch);
    return;
  }
  const float one = 1;
  const float former = c.accumulate ? 1.0f : 0.0f;
  // Row-major memory is the transposed matrix to cuBLAS: c^T = b^T a^T.
  check(cublas().gemm(
      current_handle(), operation(b), operation(a), n, m, k, &one, b.data, type_of(dtype), b.row, b.stride,
      a.data, type_of(dtype), a.row, a.stride, &former, c.data, type_of(c.dtype), c.row, c.stride, batch,
      tf32 && dtype == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace on_device
}  // namespace dlpipe::engine::cuda
