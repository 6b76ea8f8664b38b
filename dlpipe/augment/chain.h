// A chain of augmentations as one value: parsed from an expression, planned per sample, applied to pixels.
//
//   auto chain = Chain::parse("rrc(224) hflip");           // errors name the op, the position and the
//   nearest name chain->plan({width, height, 3}, key, plan);             // all random numbers of one sample,
//   drawn before decoding decode(plan.source_region) -> pixels chain->apply(plan, pixels, slot_view,
//   scratch);         // the last op writes straight into `slot_view`
//
// A Chain is immutable after parse and may be used from any number of threads; scratch belongs to one. plan
// and apply are pure functions of their arguments: same key, same pixels, on every ISA and thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::augment {

/// Everything decided for one sample. Reused between samples; holds no pixels.
struct ChainPlan {
  Region source_region;       // what to decode, in the oriented source picture
  std::vector<OpDraw> draws;  // one an op
  uint64_t hash = 0;          // over all drawn parameters: goes into the batch chain
};

/// Intermediate images of one thread; grows to the largest seen and stays.
class ChainScratch {
 public:
  std::vector<std::vector<uint8_t>> images;
  std::vector<std::byte> work;  // the resize kernel's rows and weights
  size_t bytes() const;
};

class Chain {
 public:
  /// `registry` is the built-in table plus what the program added.
  static Result<Chain> parse(std::string_view expression, const OpRegistry& registry = OpRegistry::builtin());

  /// Size of the images that come out, [H, W, C]; kMisuse when it depends on the source (add a resize or
  /// crop). Height and width are 0 for "as the source" chains only if `source` is given fixed.
  Result<ImageSize> output(const ImageSize& source_or_any) const;
  Status plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const;
  Status apply(const ChainPlan& plan, const ConstImageView& source_region_pixels, const ImageView& out,
               ChainScratch& scratch) const;
  /// normalize, cast and other ops that only describe what the engine does.
  void fill_prep(BatchPrep& prep) const;
  /// The expression with every parameter spelled out and each op's version: what the pipeline id hashes.
  std::string canonical() const;
  bool empty() const { return ops_.empty(); }

 private:
  std::vector<std::shared_ptr<const Op>> ops_;
  std::vector<std::string> canonical_;
};

}  // namespace dlpipe::augment
