#include "engine/ops/dropout.h"
#include "engine/ops/elementwise_chain.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine {

namespace {

void mask(const Tensor& from, const Tensor& to, const DropoutAttrs& attrs) {
  reference::typed(from.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < from.elements(); ++i) {
      const PhiloxBlock words =
          philox4x32(DropoutAttrs::counter(static_cast<uint64_t>(i) / 4, attrs.call), attrs.key());
      const bool kept = words[static_cast<size_t>(i % 4)] >= attrs.threshold();
      to.data<T>()[i] = kept ? from.data<T>()[i] * static_cast<T>(attrs.scale()) : T(0);
    }
  });
}

}  // namespace

extern const Kernels dropout_reference;
const Kernels dropout_reference = {
    .forward =
        [](const ForwardArgs& args) { mask(args.inputs[0], args.outputs[0], args.attrs.as<DropoutAttrs>()); },
    .backward =
        [](const BackwardArgs& args) {
          mask(args.grad_outputs[0], args.grad_inputs[0], args.attrs.as<DropoutAttrs>());
        },
};

static constexpr ChainBackend kBackend = {
    .takes = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; },
    .kernels = [](const OpRow& op, DType,
                  const Attrs&) { return op.kernels[static_cast<int>(Backend::kReference)]; },
};

extern const Kernels elementwise_chain_reference;
const Kernels elementwise_chain_reference{
    .forward = [](const ForwardArgs& args) { run_chain(args, kBackend); },
};

}  // namespace dlpipe::engine
