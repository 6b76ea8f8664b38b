// What a device can do at most, measured: the roofline of benches (engine/cpu/gemm/roofline.h).
#pragma once

#include <cstdint>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/cpu/gemm/roofline.h"

namespace dlpipe::run {

struct RooflineSizes {
  int64_t side = 8192;                // of the square matrices of a product
  int64_t floats = int64_t{1} << 26;  // of a copy, far more than caches hold
};

/// On the host engine::measure_roofline(), of f32 whatever `dtype` is. On a device what its library makes of a large
/// product of `dtype`, and its memory of a large copy: the best of a few. Nothing else running, or it is too low.
engine::Roofline measure_roofline(Device& device, DType dtype, const RooflineSizes& sizes = {});

}  // namespace dlpipe::run
