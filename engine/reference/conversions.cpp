#include "engine/ops/conversions.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "base/text.h"
#include "dlpipe/op.h"

namespace dlpipe::engine {

namespace {

template <class Body>
void any_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF64:
      return body(double{});
    case DType::kBF16:
      return body(BFloat16{});
    case DType::kF16:
      return body(Float16{});
    case DType::kU8:
      return body(uint8_t{});
    case DType::kI32:
      return body(int32_t{});
    case DType::kI64:
      return body(int64_t{});
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (is_low(DTypeOf<From>::value)) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (is_low(DTypeOf<To>::value)) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Out-of-range conversions are undefined in C++. Use the nearest integer, and 0 for NaN.
    constexpr auto kLeast = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto kMost =
        static_cast<From>(std::numeric_limits<To>::max());  // may round up: to 2^63 for 64 bits, one too many
    if (!(value >= kLeast)) return value < kLeast ? std::numeric_limits<To>::min() : To(0);
    return value < kMost ? static_cast<To>(value) : std::numeric_limits<To>::max();
  } else {
    return static_cast<To>(value);
  }
}

void convert_all(const Tensor& from, const Tensor& to) {
  any_type(from.dtype(), [&]<class From>(From) {
    any_type(to.dtype(), [&]<class To>(To) {
      const From* x = from.data<From>();
      To* y = to.data<To>();
      for (int64_t i = 0; i < from.elements(); ++i) y[i] = convert<To>(x[i]);
    });
  });
}

}  // namespace

extern const Kernels cast_reference;
const Kernels cast_reference = {
    .forward = [](const ForwardArgs& args) { convert_all(args.inputs[0], args.outputs[0]); },
    .backward = [](const BackwardArgs& args) { convert_all(args.grad_outputs[0], args.grad_inputs[0]); },
};

// The reference for cpu/kernels/conversions.cpp. The reference backend has only plain tensors, so reorder copies.

extern const Kernels reorder_reference;
const Kernels reorder_reference{
    .forward =
        [](const ForwardArgs& args) {
          std::memcpy(args.outputs[0].raw(), args.inputs[0].raw(), args.inputs[0].size_bytes());
        },
    .backward =
        [](const BackwardArgs& args) {
          std::memcpy(args.grad_inputs[0].raw(), args.grad_outputs[0].raw(),
                      args.grad_inputs[0].size_bytes());
        },
};

namespace {

/// Element i of the images after mixing by prep.mix.
float mixed(const Tensor& images, const BatchPrep& prep, int64_t i) {
  const auto* x = images.data<uint8_t>();
  const auto own = static_cast<float>(x[i]);
  if (prep.mix.empty()) return own;
  const int64_t width = images.size(2), channels = images.size(3);
  const int64_t sample = images.size(1) * width * channels;
  const SampleMix& mix = prep.mix[static_cast<size_t>(i / sample)];
  if (mix.partner < 0) return own;
  const auto other = static_cast<float>(x[mix.partner * sample + i % sample]);
  if (!has_box(mix)) return averaged(own, other, mix.lambda);
  const int64_t pixel = i % sample / channels;
  return is_in_box(mix.box, static_cast<int>(pixel % width), static_cast<int>(pixel / width)) ? other : own;
}

template <class T>
void prepare(const Tensor& images, const BatchPrep& prep, T* y) {
  for (int64_t i = 0; i < images.elements(); ++i) {
    const auto c = static_cast<size_t>(i % images.size(3));
    y[i] = T(prep.scale[c] * mixed(images, prep, i) + prep.bias[c]);
  }
}

void batch_prep_forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  const Tensor& out = args.outputs[0];
  if (prep.dtype == DType::kF32) prepare(images, prep, out.data<float>());
  if (prep.dtype == DType::kF64) prepare(images, prep, out.data<double>());
  if (prep.dtype == DType::kBF16) prepare(images, prep, out.data<BFloat16>());
  if (prep.dtype == DType::kF16) prepare(images, prep, out.data<Float16>());
}

}  // namespace

extern const Kernels batch_prep_reference;
const Kernels batch_prep_reference = {.forward = batch_prep_forward};

}  // namespace dlpipe::engine
