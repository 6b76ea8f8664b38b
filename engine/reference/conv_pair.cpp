#include "dlpipe/engine/ops/conv_pair.h"

namespace dlpipe::engine {

extern const Kernels conv_unit_reference;
extern const Kernels conv_pair_reference;
const Kernels conv_pair_reference{
    .forward = [](const ForwardArgs& args) { run_as_units(conv_unit_reference, args); },
};

}  // namespace dlpipe::engine
