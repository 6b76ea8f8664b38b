// The stage "batcher": counts a slot's samples down; the one that makes it zero finishes the batch.
//
// Stateless: any thread. Cost: one atomic subtraction per portion, and one pass over the batch's hashes at its end.
#pragma once

#include <cstdint>

#include "dlpipe/pipeline/plan/slot.h"

namespace dlpipe::pipeline {

class Batcher {
 public:
  /// `count` more samples of the slot are done. True for the call that finishes the batch: it has zeroed the
  /// padding, drawn who is mixed with whom, ordered the substitutions and hashed the batch, and the slot may
  /// go on.
  static bool done(Slot& slot, int64_t count);

 private:
  static void finish(Slot& slot);
};

}  // namespace dlpipe::pipeline
