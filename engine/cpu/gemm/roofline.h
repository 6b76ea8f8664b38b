// Measures the machine's peak performance quickly: the roofline that ops are compared with (Williams,
// Waterman and Patterson, "Roofline", 2009).
#pragma once

namespace dlpipe::engine {

struct Roofline {
  double flops_per_s = 0;  // f32 multiply-adds on data in the first-level caches, all engine threads
  double bytes_per_s = 0;  // read and written, arrays far larger than the caches, all engine threads
};
/// Takes about `seconds`. Results are too low if there are concurrent callers or other load.
Roofline measure_roofline(double seconds = 0.5);

}  // namespace dlpipe::engine
