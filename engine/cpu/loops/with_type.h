// The type of an image's elements, where a kernel is a template of it. Internal to engine/cpu.
#pragma once

#include "dlpipe/base/dtype.h"

namespace dlpipe::engine::cpu {

/// work(BFloat16()) or work(float()), whichever `dtype` is in memory.
template <class Work>
void with_type(DType dtype, const Work& work) {
  dtype == DType::kBF16 ? work(BFloat16()) : work(float());
}

}  // namespace dlpipe::engine::cpu
