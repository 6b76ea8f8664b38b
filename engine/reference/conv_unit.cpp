#include "engine/ops/conv_unit.h"

namespace dlpipe::engine {

extern const Kernels add_reference;
extern const Kernels clip_reference;
extern const Kernels conv2d_reference;
extern const Kernels silu_reference;
extern const Kernels conv_unit_reference;
const Kernels conv_unit_reference{
    .forward =
        [](const ForwardArgs& args) {
          run_in_parts({conv2d_reference, clip_reference, silu_reference, add_reference}, args);
        },
};

extern const Kernels conv_pair_reference;
const Kernels conv_pair_reference{
    .forward = [](const ForwardArgs& args) { run_as_units(conv_unit_reference, args); },
};

}  // namespace dlpipe::engine
