// The declarations of the op embedding, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// Throws Error "[embedding] ..." unless every id is a row of a table of `rows`.
void check_ids(const Tensor& ids, int64_t rows);

}  // namespace dlpipe::engine
