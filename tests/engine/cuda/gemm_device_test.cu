// The same test of products, by cuBLAS.
#include "tests/engine/cuda/gemm_test.cpp"  // NOLINT
