// Answers alone: a forward pass that no gradient follows, now or when it is run again, may take other kernels than a step's, with
// other bits: sums are cut where it is fastest.
//
// Not the same as NoGrad, under which steps run as well: backward walks, and first passes of what is recomputed (layers/recompute.h).
// Each thread has its own; slices that it hands to other threads (parallel.h) have their caller's.
#pragma once

#include "dlpipe/base/scoped_value.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// The calling thread's variable; read and set it by what follows.
namespace thread_state {
bool& inference();
}

/// Whether ops of this thread compute answers alone.
bool is_inference();

/// While one lives, they do, and record nothing.
class InferenceMode {
 public:
  InferenceMode() : inference_(true) {}

 private:
  NoGrad no_grad_;
  ScopedValue<thread_state::inference> inference_;
};

}  // namespace dlpipe::engine
