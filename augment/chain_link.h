// One op of a chain, built: what chain_parse.cpp makes, chain_plan.cpp plans and chain_apply.cpp applies. Internal to augment.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlpipe/augment/join.h"
#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

/// One of op, prep and policy is there.
struct ChainLink {
  const OpRecord* record = nullptr;
  std::shared_ptr<const Op> op;
  std::shared_ptr<const PrepOp> prep;
  std::shared_ptr<const PolicyOp> policy;
  std::vector<const Chain*> choices;  // policy's
  const ResizeOp* resize = nullptr;   // op, where it is one
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

}  // namespace dlpipe::augment
