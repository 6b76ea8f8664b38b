#include "dlpipe/base/batch_prep.h"

#include "dlpipe/engine/cpu/elementwise.h"

namespace dlpipe::engine {

namespace {

// A run in which every vector meets the channels in the same places: a multiple of 1, 2, 3 and 4 channels and
// of sixteen lanes.
constexpr int64_t kRun = 48;

void forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  const uint8_t* x = images.data<uint8_t>();
  const int64_t channels = images.size(3);
  float scales[kRun];
  float biases[kRun];
  for (int64_t i = 0; i < kRun; ++i) {
    scales[i] = prep.scale[static_cast<size_t>(i % channels)];
    biases[i] = prep.bias[static_cast<size_t>(i % channels)];
  }
  constexpr int64_t kGrain = cpu::kElementwiseGrain / kRun * kRun;
  cpu::stored(prep.dtype, [&]<class T>(T*) {
    T* y = static_cast<T*>(args.outputs[0].raw());
    parallel_ranges(images.elements(), kGrain, [&](int64_t begin, int64_t end) {
      cpu::on_best_isa([=, &scales, &biases]() DLPIPE_INLINE {
        int64_t i = begin;
        for (; i + kRun <= end; i += kRun) {
          for (int64_t k = 0; k < kRun; ++k) {
            cpu::store(y + i + k, scales[k] * static_cast<float>(x[i + k]) + biases[k]);
          }
        }
        for (int64_t k = 0; i + k < end; ++k) {
          cpu::store(y + i + k, scales[k] * static_cast<float>(x[i + k]) + biases[k]);
        }
      });
    });
  });
}

}  // namespace

extern const Kernels batch_prep_cpu;
const Kernels batch_prep_cpu = {
    .forward = forward,
    .supports = [](std::span<const TensorSpec>,
                   const Attrs& attrs) { return attrs.as<BatchPrep>().dtype != DType::kF64; },
};

}  // namespace dlpipe::engine
