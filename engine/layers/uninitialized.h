// For who builds a model to load weights into: drawing initial ones takes seconds for large models.
#pragma once

#include "dlpipe/base/scoped_value.h"

namespace dlpipe::engine {

namespace thread_state {
/// Whether this thread's modules keep NaN where initial weights would be drawn.
bool& leaves_uninitialized();
}  // namespace thread_state

/// While one with the value true lives, models built on this thread have weights of NaN (constants, as norms start
/// with, are set): Module::load_state_dict is to fill all of them.
using LeaveUninitialized = ScopedValue<thread_state::leaves_uninitialized>;

}  // namespace dlpipe::engine
