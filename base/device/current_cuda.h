// Which GPU the CUDA libraries' calls of a thread are for, and kernels that it launches. Only where dlpipe was built with CUDA.
#pragma once

namespace dlpipe {

/// While one lives, cuda:`index` is the calling thread's current device; then the former one is again. Where the thread had
/// none it has none: cudaSetDevice() of the device that it would get makes a context there, and each rank's process would
/// have some hundred megabytes of the first GPU's memory.
class CurrentCuda {
 public:
  explicit CurrentCuda(int index);
  ~CurrentCuda();
  CurrentCuda(const CurrentCuda&) = delete;
  CurrentCuda& operator=(const CurrentCuda&) = delete;

 private:
  void* former_ = nullptr;  // the context; null: none
  bool puts_back_ = false;
};

}  // namespace dlpipe
