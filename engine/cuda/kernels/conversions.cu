#include "engine/ops/conversions.h"

#include <algorithm>
#include <limits>

#include "dlpipe/op.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/formula.h"

namespace dlpipe::engine {
namespace {

/// Converts between f32, bf16 and f16, the dtypes of autocast.
void convert_all(const Tensor& from, const Tensor& to) {
  cuda::stored(from.dtype(), [&](auto in) {
    cuda::stored(to.dtype(),
                 [&](auto out) { cuda::launch_map<decltype(in), decltype(out)>({from}, to, cuda::Same()); });
  });
}

bool supports_cast(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::is_stored(inputs[0].dtype) && cuda::is_stored(attrs.as<CastAttrs>().dtype);
}
void cast_forward(const ForwardArgs& args) {
  convert_all(args.inputs[0], args.outputs[0]);
}
void cast_backward(const BackwardArgs& args) {
  convert_all(args.grad_outputs[0], args.grad_inputs[0]);
}

}  // namespace

DLPIPE_CUDA_KERNELS(cast) = {cast_forward, cast_backward, supports_cast};

namespace {

/// Rounds twice, as on the CPU, so that a batch has the same bits wherever it is prepared. nvcc would use one fused instruction.
DLPIPE_DEVICE float scaled(float value, float scale, float bias) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(scale, value), bias);
#else
  return scale * value + bias;
#endif
}

/// y = scale[channel] x + bias[channel]. One thread per pack of sixteen bytes of y.
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
    // Congruent to the block's first element modulo `channels`. A 64-bit division would take longer than the rest.
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

/// The same with samples mixed. A block works on one sample, a thread on a pack of sixteen bytes of y.
template <class T>
struct PrepareMixedImages {
  static constexpr const char* kName = "batch_prep, mixed";
  static constexpr int kThreads = 256;
  static constexpr int kWidth = cuda::kPackWidth<T>;
  static constexpr uint32_t kOfBlock = kThreads * kWidth;
  using Shared = cuda::NoShared;
  const uint8_t* x;
  T* y;
  const SampleMix* mixes;
  uint32_t elements;  // per sample
  uint32_t width;     // of an image
  uint32_t channels;
  uint32_t blocks;  // per sample
  bool in_packs;    // y and each of its samples are aligned to packs
  float scale[BatchPrep::kMaxChannels];
  float bias[BatchPrep::kMaxChannels];

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    const auto sample = static_cast<uint32_t>(block.index()) / blocks;
    const uint32_t begin = static_cast<uint32_t>(block.index()) % blocks * kOfBlock;
    const SampleMix mix = mixes[sample];
    const bool is_mixed = mix.partner >= 0;
    const bool takes_box = is_mixed && has_box(mix);
    const uint8_t* const own = x + static_cast<int64_t>(sample) * elements;
    const uint8_t* const other = is_mixed ? x + static_cast<int64_t>(mix.partner) * elements : own;
    T* const to = y + static_cast<int64_t>(sample) * elements;
    block.each([&](int thread) {
      const uint32_t first = begin + static_cast<uint32_t>(thread) * kWidth;
      if (first >= elements) return;
      uint32_t channel = first % channels;
      uint32_t column = first / channels % width;
      uint32_t row = first / channels / width;
      const auto prepared = [&](uint32_t i) {
        float value = own[i];
        if (takes_box) {
          if (is_in_box(mix.box, static_cast<int>(column), static_cast<int>(row))) value = other[i];
        } else if (is_mixed) {
          value = averaged(value, static_cast<float>(other[i]), mix.lambda);
        }
        const float result = scaled(value, scale[channel], bias[channel]);
        if (++channel == channels) {
          channel = 0;
          if (++column == width) {
            column = 0;
            ++row;
          }
        }
        return cuda::narrowed<T>(result);
      };
      if (in_packs) {
        cuda::Pack<T> out;
        for (int k = 0; k < kWidth; ++k) out.at[k] = prepared(first + static_cast<uint32_t>(k));
        *reinterpret_cast<cuda::Pack<T>*>(to + first) = out;
        return;
      }
      for (uint32_t i = first; i < first + kWidth && i < elements; ++i) to[i] = prepared(i);
    });
  }
};

template <class T>
void prepare_mixed(const Tensor& images, const BatchPrep& prep, const Tensor& mixes, const Tensor& to) {
  const int64_t elements = images.elements() / images.size(0);
  PrepareMixedImages<T> kernel{images.data<uint8_t>(),
                               cuda::elements_to<T>(to),
                               static_cast<const SampleMix*>(mixes.raw()),
                               static_cast<uint32_t>(elements),
                               static_cast<uint32_t>(images.size(2)),
                               static_cast<uint32_t>(images.size(3)),
                               0,
                               cuda::is_pack_aligned(to.raw()) && elements % cuda::kPackWidth<T> == 0,
                               {},
                               {}};
  kernel.blocks = static_cast<uint32_t>(cuda::blocks_for(elements, kernel.kOfBlock));
  std::copy(prep.scale.begin(), prep.scale.end(), kernel.scale);
  std::copy(prep.bias.begin(), prep.bias.end(), kernel.bias);
  cuda::launch(kernel, images.size(0) * kernel.blocks);
}

/// prep.mix on the images' device, if the caller hasn't brought it there. The host waits for the copy.
Tensor mixes_beside(const Tensor& images, const BatchPrep& prep) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(prep.mix.data());
  const auto n = static_cast<int64_t>(prep.mix.size());
  const auto size = static_cast<int64_t>(sizeof(SampleMix));
  return Tensor::from(std::span<const uint8_t>(bytes, prep.mix.size() * sizeof(SampleMix)), {n, size})
      .to(images.device());
}

void batch_prep_forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  const Tensor& to = args.outputs[0];
  if (images.elements() == 0) return;
  if (!prep.mix.empty()) {
    const Tensor mixes = args.inputs.size() > 1 ? args.inputs[1] : mixes_beside(images, prep);
    cuda::stored(prep.dtype, [&](auto type) { prepare_mixed<decltype(type)>(images, prep, mixes, to); });
    return;
  }
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

bool supports_batch_prep(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const auto& prep = attrs.as<BatchPrep>();
  const Shape& images = inputs[0].shape;
  // Indices into a sample have 32 bits.
  const bool is_small = images[1] * images[2] * images[3] <= std::numeric_limits<int32_t>::max();
  return cuda::is_stored(prep.dtype) && (prep.mix.empty() || is_small);
}

}  // namespace

DLPIPE_CUDA_KERNELS(batch_prep) = {batch_prep_forward, nullptr, supports_batch_prep};

}  // namespace dlpipe::engine
