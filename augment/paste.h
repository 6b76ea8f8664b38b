// Pasting objects of one picture over another (a PasteOp): which pixels are taken, and what is left of the objects below.
//
// An object is a box. Its pixels are those in the box where the mask holds its class, which is its label + 1, or any class but 0
// and 255 where boxes have no labels. So two objects of one class whose boxes overlap share pixels. What has no such pixel can't
// be pasted; what is pasted over one loses the share of its box that is covered.
//
// Pure functions of their arguments. Cost: painting both masks where objects are.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/join.h"

namespace dlpipe::augment {

/// Draws which objects of the second picture are pasted, and sets plan.overlay and the boxes of both. The plan is joined, and
/// nothing behind the op is planned yet. Answers a hash of what was drawn.
uint64_t paste_objects(const PasteOp& op, std::span<const PlannedPicture> pictures, RandomStream& rng,
                       ChainPlan& plan);

/// Copies the pasted pixels of `from`, which shows the part `at` of the op's output, to the same places of `to`.
void lay_over(const Overlay& overlay, const Region& at, const ConstImageView& from, const ImageView& to);

}  // namespace dlpipe::augment
