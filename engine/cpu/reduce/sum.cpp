#include "dlpipe/engine/cpu/reduce/reduction.h"

namespace dlpipe::engine {

extern const Kernels sum_cpu;
const Kernels sum_cpu = {
    .forward = [](const ForwardArgs& args) { cpu::reduce(args, false); },
    .backward = [](const BackwardArgs& args) { cpu::expand(args, false); },
    .supports = cpu::supports_f32_bf16,
};

}  // namespace dlpipe::engine
