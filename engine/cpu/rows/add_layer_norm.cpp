#include "dlpipe/engine/cpu/rows/layer_norm.h"
#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine {

extern const Kernels add_layer_norm_cpu;
const Kernels add_layer_norm_cpu =
    add_layer_norm_kernels<cpu::normalize_rows, cpu::normalize_rows_gradient>(cpu::supports_normalize_rows);

}  // namespace dlpipe::engine
