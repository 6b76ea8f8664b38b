#include "dlpipe/base/batch_prep.h"

#include <algorithm>

#include "dlpipe/engine/cuda/elements.h"
#include "dlpipe/engine/op.h"

namespace dlpipe::engine {
namespace {

/// Rounded twice as on the cpu, whose bits a batch has wherever it is prepared: nvcc would make it one
/// instruction.
DLPIPE_DEVICE float scaled(float value, float scale, float bias) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(scale, value), bias);
#else
  return scale * value + bias;
#endif
}

/// y = scale[channel] x + bias[channel]; one thread a pack of sixteen bytes of y.
template <class T>
struct PrepareImages {
  static constexpr const char* kName = "batch_prep";
  static constexpr int kThreads = 256;
  static constexpr int kWidth = cuda::kPackWidth<T>;
  using Shared = cuda::NoShared;
  struct alignas(kWidth) Bytes {
    uint8_t at[kWidth];
  };
  const uint8_t* x;
  T* y;
  int64_t count;
  uint32_t channels;
  bool in_packs;  // both pointers are aligned to packs
  float scale[BatchPrep::kMaxChannels];
  float bias[BatchPrep::kMaxChannels];

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    constexpr uint32_t kOfBlock = kThreads * kWidth;
    // The first element's channel; a division in 64 bits would take longer than the rest.
    const uint32_t lead = static_cast<uint32_t>(block.index()) % channels * kOfBlock;
    block.each([&](int thread) {
      const int64_t first = block.index() * kOfBlock + thread * kWidth;
      uint32_t channel = (lead + static_cast<uint32_t>(thread * kWidth)) % channels;
      const auto prepared = [&](uint8_t value) {
        const float result = scaled(static_cast<float>(value), scale[channel], bias[channel]);
        channel = channel + 1 == channels ? 0 : channel + 1;
        return cuda::narrowed<T>(result);
      };
      if (in_packs && first + kWidth <= count) {
        const Bytes in = *reinterpret_cast<const Bytes*>(x + first);
        cuda::Pack<T> out;
        for (int k = 0; k < kWidth; ++k) out.at[k] = prepared(in.at[k]);
        *reinterpret_cast<cuda::Pack<T>*>(y + first) = out;
        return;
      }
      for (int64_t i = first; i < first + kWidth && i < count; ++i) y[i] = prepared(x[i]);
    });
  }
};

void forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  const Tensor& to = args.outputs[0];
  cuda::stored(prep.dtype, [&](auto type) {
    using T = decltype(type);
    PrepareImages<T> kernel{images.data<uint8_t>(),
                            cuda::elements_to<T>(to),
                            images.elements(),
                            static_cast<uint32_t>(images.size(3)),
                            cuda::is_pack_aligned(images.raw()) && cuda::is_pack_aligned(to.raw()),
                            {},
                            {}};
    std::copy(prep.scale.begin(), prep.scale.end(), kernel.scale);
    std::copy(prep.bias.begin(), prep.bias.end(), kernel.bias);
    cuda::launch(kernel, cuda::blocks_for(kernel.count, int64_t{kernel.kThreads} * kernel.kWidth));
  });
}

bool supports(std::span<const TensorSpec>, const Attrs& attrs) {
  return attrs.as<BatchPrep>().dtype != DType::kF64;
}

}  // namespace

DLPIPE_CUDA_KERNELS(batch_prep) = {forward, nullptr, supports};

}  // namespace dlpipe::engine
