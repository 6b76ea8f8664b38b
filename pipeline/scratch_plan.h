// How much memory a loader's threads will take beside the slots, known before the first sample: for a plan of memory.
#pragma once

#include <cstdint>

#include "dlpipe/pipeline/plan/setup.h"

namespace dlpipe::pipeline {

/// Of all threads: the largest picture of the dataset is planned for some keys, and the largest of these plans is taken with
/// an eighth more, as other keys may draw larger ones. 0 where there are no pictures.
int64_t planned_scratch_bytes(const Setup& setup);

}  // namespace dlpipe::pipeline
