#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

std::span<const OpRecord* const> OpRecord::built_in() {
  return augmentation_table();
}

}  // namespace dlpipe::augment
