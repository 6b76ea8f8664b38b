// The slow twin of cpu/images/reorder.cpp. On the reference backend there are only plain tensors, so it copies.
#include <cstring>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

extern const Kernels reorder_reference;
const Kernels reorder_reference{
    .forward =
        [](const ForwardArgs& args) {
          std::memcpy(args.outputs[0].raw(), args.inputs[0].raw(), args.inputs[0].size_bytes());
        },
    .backward =
        [](const BackwardArgs& args) {
          std::memcpy(args.grad_inputs[0].raw(), args.grad_outputs[0].raw(),
                      args.grad_inputs[0].size_bytes());
        },
};

}  // namespace dlpipe::engine
