// Shared by the files of a chain: its links, which chain_parse.cpp creates and chain.cpp plans and applies, and pasting, which
// is in moving.cpp. Internal to augment.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "augment/kinds.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

/// Exactly one of op, prep and policy is set.
struct ChainLink {
  const OpRecord* record = nullptr;
  std::shared_ptr<const Op> op;
  std::shared_ptr<const PrepOp> prep;
  std::shared_ptr<const PolicyOp> policy;
  std::vector<const Chain*> choices;  // policy's
  const ResizeOp* resize = nullptr;   // op, if it is one
  const JoinOp* join = nullptr;       // the same
  const PasteOp* paste = nullptr;     // the same
  const BoxedOp* boxed = nullptr;     // the same
  const BoxJudge* judge = nullptr;    // the same
  double probability = 1;             // of its parameter p
  bool takes_probability = false;
  std::string text;  // name and all parameters, "hflip(p=0.5)"
};

/// "500x375x3", for messages.
std::string size_text(const ImageSize& size);

// Pasting objects of one image over another (a PasteOp): which pixels are copied, and what remains of the objects below.
//
// An object is a box. Its pixels are those in the box where the mask has its class (its label + 1, or any class except 0 and
// 255 if boxes have no labels). So two objects of the same class whose boxes overlap share pixels. An object without such
// pixels can't be pasted; an object below loses the covered share of its box.
//
// Pure functions of their arguments. Cost: painting both masks in the area of objects.

/// Draws which objects of the second image are pasted, and sets plan.overlay and the boxes of both. The plan must be joined,
/// with nothing after the op planned yet. Returns a hash of what was drawn.
uint64_t paste_objects(const PasteOp& op, std::span<const PlannedImage> images, RandomStream& rng,
                       ChainPlan& plan);

/// Copies the pasted pixels of `from`, which shows the part `at` of the op's output, to the same places of `to`.
void lay_over(const Overlay& overlay, const Region& at, const ConstImageView& from, const ImageView& to);

}  // namespace dlpipe::augment
