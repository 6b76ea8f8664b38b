#include "dlpipe/engine/ops/elementwise_chain.h"

namespace dlpipe::engine {

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
