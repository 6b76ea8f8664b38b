#include "dlpipe/engine/ops/cast.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

namespace {

// Between f32 and bf16, the pair of autocast.
void convert_all(const Tensor& from, const Tensor& to) {
  cpu::stored(from.dtype(), [&]<class From>(From*) {
    cpu::stored(to.dtype(), [&]<class To>(To*) {
      const From* x = from.data<From>();
      To* y = to.data<To>();
      parallel_ranges(from.elements(), cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
        cpu::on_best_isa([=]() DLPIPE_INLINE {
          for (int64_t i = begin; i < end; ++i) cpu::store_one(y + i, cpu::load_one(x + i));
        });
      });
    });
  });
}

}  // namespace

extern const Kernels cast_cpu;
const Kernels cast_cpu = {
    .forward = [](const ForwardArgs& args) { convert_all(args.inputs[0], args.outputs[0]); },
    .backward = [](const BackwardArgs& args) { convert_all(args.grad_outputs[0], args.grad_inputs[0]); },
    .supports =
        [](std::span<const TensorSpec> inputs, const Attrs& attrs) {
          return is_f32_or_bf16(inputs[0].dtype) && is_f32_or_bf16(attrs.as<CastAttrs>().dtype);
        },
};

}  // namespace dlpipe::engine
