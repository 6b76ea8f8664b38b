#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/reference/layer_norm.h"

namespace dlpipe::engine {

extern const Kernels add_layer_norm_reference;
const Kernels add_layer_norm_reference =
    add_layer_norm_kernels<reference::normalize_rows, reference::normalize_rows_gradient>(nullptr);

}  // namespace dlpipe::engine
