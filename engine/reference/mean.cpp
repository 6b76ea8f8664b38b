#include "dlpipe/engine/reference/reduction.h"

namespace dlpipe::engine {

extern const Kernels mean_reference;
const Kernels mean_reference = {
    .forward = [](const ForwardArgs& args) { reference::reduce(args, true); },
    .backward = [](const BackwardArgs& args) { reference::expand(args, true); },
};

}  // namespace dlpipe::engine
