# The ops on images and what their cpu kernels share.
dlpipe_register(op avg_pool2d BACKENDS reference cpu cuda)
dlpipe_register(op batch_norm BACKENDS reference cpu cuda)
dlpipe_register(op conv2d BACKENDS reference cpu cuda)
dlpipe_register(op global_avg_pool BACKENDS reference cpu cuda)
dlpipe_register(op max_pool2d BACKENDS reference cpu cuda)
dlpipe_register(op reorder BACKENDS reference cpu)
list(
  APPEND
  engine_sources
  cpu/conv2d_choice.cpp
  cpu/conv2d_plan.cpp
  cpu/conv2d_primitive.cpp
  cpu/conv2d_winograd.cpp
  cpu/image_copy.cpp
  cpu/kernel_table.cpp
  cpu/measured_kernels.cpp
  cpu/onednn.cpp
  cpu/winograd_kernels.cpp
  ops/window.cpp)
