// Whether normalised pixels fit the numbers that hold them. A pure function.
#pragma once

#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"

namespace dlpipe::augment {

/// kMisuse where a black or a white pixel becomes infinite in `dtype`, as with a std near 0.
Status check_pixel_range(const BatchPrep& prep, DType dtype);

}  // namespace dlpipe::augment
