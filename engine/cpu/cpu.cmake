# What several of the cpu's kernels share; the kernels themselves are registered in ops/ops.cmake.
set(cpu_sources
    cpu/conv/conv2d_choice.cpp
    cpu/conv/conv2d_depthwise.cpp
    cpu/conv/conv2d_plan.cpp
    cpu/conv/conv2d_product.cpp
    cpu/conv/conv2d_taps.cpp
    cpu/conv/conv2d_winograd.cpp
    cpu/conv/unit_bf16.cpp
    cpu/conv/unit_kernels.cpp
    cpu/conv/unit_parts.cpp
    cpu/conv/winograd_kernels.cpp
    cpu/gemm/block_gemm.cpp
    cpu/gemm/block_product.cpp
    cpu/gemm/gemm.cpp
    cpu/gemm/onednn_gemm.cpp
    cpu/gemm/pair_product.cpp
    cpu/gemm/roofline.cpp
    cpu/loops/activation.cpp
    cpu/loops/formula.cpp
    cpu/loops/image_copy.cpp
    cpu/onednn/onednn.cpp)
set(cpu_sources_without_traps cpu/kernels/layer_norm.cpp cpu/kernels/losses.cpp cpu/kernels/sequences.cpp cpu/loops/activation.cpp)
