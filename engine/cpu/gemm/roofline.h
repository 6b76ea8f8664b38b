// Measures the machine's peak performance quickly: the roofline that ops are compared with (Williams,
// Waterman and Patterson, "Roofline", 2009).
#pragma once

#include "dlpipe/dtype.h"

namespace dlpipe::engine {

struct Roofline {
  double flops_per_s = 0;     // multiply-adds on data in the caches, all engine threads
  double bytes_per_s = 0;     // read and written, arrays far larger than the caches, all engine threads
  DType dtype = DType::kF32;  // of the multiply-adds
};
/// Multiplies in bf16 if `dtype` is bf16 and the CPU has instructions for it, otherwise in f32. Takes about `seconds`. Results
/// are too low if there are concurrent callers or other load.
Roofline measure_roofline(DType dtype = DType::kF32, double seconds = 0.5);

}  // namespace dlpipe::engine
