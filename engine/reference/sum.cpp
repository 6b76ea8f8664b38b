#include "dlpipe/engine/reference/reduction.h"

namespace dlpipe::engine {

extern const Kernels sum_reference;
const Kernels sum_reference = {
    .forward = [](const ForwardArgs& args) { reference::reduce(args, false); },
    .backward = [](const BackwardArgs& args) { reference::expand(args, false); },
};

}  // namespace dlpipe::engine
