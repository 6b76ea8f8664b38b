// Selects the GPU for a thread's calls of CUDA libraries and its kernels. Only in builds with CUDA.
#pragma once

namespace dlpipe {

/// While an object lives, cuda:`index` is the calling thread's current device; then the previous one is restored. A
/// thread that had no context has none again afterwards: restoring it by cudaSetDevice() of the default device would
/// create a context there, and the process of each rank would occupy some hundred megabytes of the first GPU's memory.
class CurrentCuda {
 public:
  explicit CurrentCuda(int index);
  ~CurrentCuda();
  CurrentCuda(const CurrentCuda&) = delete;
  CurrentCuda& operator=(const CurrentCuda&) = delete;

 private:
  void* former_ = nullptr;  // the previous context; null: none
  bool puts_back_ = false;
};

}  // namespace dlpipe
