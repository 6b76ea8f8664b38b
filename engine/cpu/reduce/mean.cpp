#include "dlpipe/engine/cpu/reduce/reduction.h"

namespace dlpipe::engine {

extern const Kernels mean_cpu;
const Kernels mean_cpu = {
    .forward = [](const ForwardArgs& args) { cpu::reduce(args, true); },
    .backward = [](const BackwardArgs& args) { cpu::expand(args, true); },
    .supports = cpu::supports_f32_bf16,
};

}  // namespace dlpipe::engine
