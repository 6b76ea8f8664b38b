#include "dlpipe/run/bench/device_roofline.h"

#include <algorithm>

#include "dlpipe/base/counter.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::run {

engine::Roofline measure_roofline(Device& device, DType dtype, const RooflineSizes& sizes) {
  if (device.is_host()) return engine::measure_roofline();
  constexpr int kRounds = 5;
  const engine::NoGrad no_grad;
  const engine::Tensor a = engine::Tensor::full({sizes.side, sizes.side}, 0.5, dtype, device);
  const engine::Tensor large = engine::Tensor::full({sizes.floats}, 1.0, DType::kF32, device);
  const auto seconds_of = [&](const auto& work) {
    engine::synchronize(device);
    const int64_t begin = now_ns();
    work();
    engine::synchronize(device);
    return static_cast<double>(now_ns() - begin) * 1e-9;
  };
  const auto side = static_cast<double>(sizes.side);
  const double flops = 2.0 * side * side * side;
  const double bytes = 2.0 * static_cast<double>(sizes.floats) * sizeof(float);
  engine::Roofline best;
  for (int i = 0; i < kRounds; ++i) {
    best.flops_per_s = std::max(best.flops_per_s, flops / seconds_of([&] { (void)engine::matmul(a, a); }));
    best.bytes_per_s = std::max(best.bytes_per_s, bytes / seconds_of([&] { (void)large.clone(); }));
  }
  return best;
}

}  // namespace dlpipe::run
