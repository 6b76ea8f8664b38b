// Rows of layer_norm and add_layer_norm in double, one after another.
#pragma once

#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine::reference {

/// As ops/layer_norm.h says.
void normalize_rows(const RowNorms& norms);
void normalize_rows_gradient(const RowNormGradients& gradients);

}  // namespace dlpipe::engine::reference
