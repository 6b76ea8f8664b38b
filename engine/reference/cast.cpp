#include "dlpipe/engine/ops/cast.h"

#include <limits>
#include <type_traits>

#include "dlpipe/base/text.h"

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
    // What an integer can't hold is undefined in C++: the nearest that it has, 0 for NaN.
    constexpr auto kLeast = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto kMost =
        static_cast<From>(std::numeric_limits<To>::max());  // of 64 bits: 2^63, one too many
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

}  // namespace dlpipe::engine
