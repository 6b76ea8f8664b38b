# What is beside the ops' kernels, which are registered in ops/ops.cmake.
set(cuda_sources "")
if(DLPIPE_HAVE_CUDA)
  set(cuda_sources
      cuda/flat/flat_steps.cu
      cuda/coef/coef_decode.cu
      cuda/gemm/cublas_lt.cpp
      cuda/cudnn/cudnn.cpp
      cuda/cudnn/cudnn_attention.cpp
      cuda/cudnn/cudnn_conv.cpp
      cuda/cudnn/cudnn_plan.cpp
      cuda/entry/device_code.cu
      cuda/gemm/gemm.cpp
      cuda/libraries/loaded_library.cpp
      cuda/grid/stream.cpp)
endif()
