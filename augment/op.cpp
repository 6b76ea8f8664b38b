#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

std::span<const OpRecord* const> OpRecord::built_in() {
  return augmentation_table();
}

Movement Op::movement(const OpDraw& draw) const {
  const Region& from = draw.drawn_region;
  return Movement::scaled(static_cast<double>(from.width) / draw.out.width, from.x,
                          static_cast<double>(from.height) / draw.out.height, from.y);
}

}  // namespace dlpipe::augment
