# What is beside the ops' kernels, which are registered in ops/ops.cmake.
set(cuda_sources "")
if(DLPIPE_HAVE_CUDA)
  set(cuda_sources
      cuda/arena_steps.cu
      cuda/coef_decode.cu
      cuda/cublas_lt.cpp
      cuda/cudnn.cpp
      cuda/cudnn_attention.cpp
      cuda/cudnn_conv.cpp
      cuda/cudnn_plan.cpp
      cuda/device_code.cu
      cuda/gemm.cpp
      cuda/loaded_library.cpp
      cuda/stream.cpp)
endif()
