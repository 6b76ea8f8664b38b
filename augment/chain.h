// A chain of augmentations as one value: parsed from an expression, planned per sample, applied to pixels.
//
//   Result<Chain> chain = Chain::parse("rrc(224) hflip");   // errors name the op, the position, the nearest name
//   Status status = chain->plan(source_size, key, plan);    // every random number of one sample, drawn first
//   ConstImageView pixels = decode(plan.source_region);     // only what the plan reads
//   status = chain->apply(plan, pixels, out, scratch);      // the last op writes straight into `out`
//
// A Chain is immutable after parse and may be used from any number of threads; a plan and a scratch belong to
// one. plan and apply are pure functions of their arguments: same key, same pixels, on every ISA and thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::augment {

struct ChainLink;  // one op of a chain, built; chain_link.h
struct ExpressionCall;
struct JoinedPicture;

/// One op that apply runs, and the part of the image before it that it reads.
struct ChainStep {
  static constexpr int kCopy = -1;  // no op: the part is copied
  int op = kCopy;                   // index of the plan's draws
  Region input;
  bool mirror = false;  // of a copy: left and right are swapped
};

/// Which pixels of a PasteOp's output are those of the other picture.
struct Overlay {
  Region region;                // around them, in the op's output; empty: there are none
  std::vector<uint8_t> pasted;  // [region] 1: it is one
  bool at(int x, int y) const {
    x -= region.x, y -= region.y;
    return x >= 0 && y >= 0 && x < region.width && y < region.height &&
           pasted[static_cast<size_t>(y) * static_cast<size_t>(region.width) + static_cast<size_t>(x)] != 0;
  }
};

/// Everything decided for one sample. Reused between samples; holds no pixels.
struct ChainPlan {
  ImageSize source;                     // the whole picture
  Region source_region;                 // what to decode, in the oriented source picture
  ImageSize out;                        // what apply writes
  std::vector<OpDraw> draws;            // one per op, in order; a policy's choice stands in its place
  std::vector<const ChainLink*> links;  // [draws] the ops, which belong to the chain
  std::vector<ChainStep> steps;  // what apply runs: crops, flips and inactive ops have been folded away
  uint64_t hash = 0;             // over all drawn parameters: goes into the batch chain
  /// Where an op puts several pictures into one (join.h): each with a plan of its own. `source` is then what the op makes of
  /// them, source_region the part of it that is needed, and draws and steps are the op's and of those behind it.
  std::vector<JoinedPicture> pictures;
  bool pastes = false;  // the op lays the second picture's objects over the first
  Overlay overlay;      // then

  bool is_joined() const;
  /// True when source_region's pixels are the output: a caller may decode straight into the slot.
  bool is_copy() const { return steps.empty(); }
};

/// One picture of a joined plan.
struct JoinedPicture {
  ChainPlan
      plan;     // plan.out is no more than the part that is needed; 0 x 0: nothing is, and there are no steps
  Region from;  // of the picture as it comes to the op: what the op places
  int x = 0;    // where the upper left corner of `from` stands in the op's output
  int y = 0;
  Region needed;  // what plan's steps write, in the op's output
  /// Where objects are pasted: its boxes as they leave the op, in the order of PlannedPicture::boxes; nothing: it was dropped.
  std::vector<std::optional<MovedBox>> boxes;
};

inline bool ChainPlan::is_joined() const {
  return !pictures.empty();
}

/// Where apply_joined gets pixels from.
class PictureSource {
 public:
  virtual ~PictureSource() = default;
  /// The part plan.source_region of picture `index` of the plan, valid until the next call; or, where plan.is_copy(), `out`
  /// itself with the pixels in it.
  virtual Result<ConstImageView> pixels(size_t index, const ChainPlan& plan, const ImageView& out) = 0;
};

/// A picture that a chain is planned for.
struct PlannedPicture {
  ImageSize size;
  int64_t sample = 0;
  /// Rows of x_min, y_min, x_max, y_max, in pixels of the picture: what BoxedOps and PasteOps draw by.
  std::span<const float> boxes = {};
  /// What a PasteOp takes beside: a class per box (empty: it isn't known), and the mask of the whole picture (0 wide: none).
  std::span<const int64_t> labels = {};
  ConstImageView mask = {};
};

/// Intermediate images of one thread; grows to the largest seen and stays.
class ChainScratch {
 public:
  std::array<std::vector<uint8_t>, 2> images;  // written in turns by all ops but the last
  std::vector<std::byte> work;                 // an op's own rows, weights, tables
  std::vector<std::byte> rows;                 // what stands between an op's passes
  std::vector<uint8_t> joined;                 // several pictures put into one
  std::vector<uint8_t> pasted;                 // one of them, where it is laid over another
  std::unique_ptr<ChainScratch> inner;         // of an op that runs chains of its own
  /// At least `bytes` of one of them. What was in it is lost, and no more is taken than is asked for.
  static void grow(std::vector<uint8_t>& memory, size_t bytes) {
    if (memory.size() >= bytes) return;
    std::vector<uint8_t>().swap(memory);
    memory.resize(bytes);
  }
  size_t bytes() const {
    return images[0].capacity() + images[1].capacity() + work.capacity() + rows.capacity() +
           joined.capacity() + pasted.capacity() + (inner ? inner->bytes() : 0);
  }
};

class Chain {
 public:
  Chain() = default;  // the empty chain
  /// `registry` is the built-in table plus what the program added; it is needed during the call only, its
  /// records as long as the chain.
  static Result<Chain> parse(std::string_view expression, const OpRegistry& registry = OpRegistry::builtin());

  /// Size of the images that come out, [H, W, C]; kMisuse when it depends on the source (add a resize or
  /// crop). Zeros in `source_or_any` mean that it isn't the same for all samples.
  Result<ImageSize> output(const ImageSize& source_or_any) const;
  /// The size of the images that come out, zeros where it isn't known before the sample is.
  ImageSize size_after(const ImageSize& in) const;
  /// Fails when the sample can't go through the chain (an image smaller than a crop).
  Status plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const;
  /// Pictures besides its own that this sample needs: 0, unless an op joins several and is drawn.
  int others(const SampleKey& key) const;
  /// The same of a sample with others(key) more pictures behind its own.
  Status plan(std::span<const PlannedPicture> pictures, const SampleKey& key, ChainPlan& plan) const;
  /// `source_region_pixels` has plan.source_region's size, `out` plan.out's. They must not overlap.
  Status apply(const ChainPlan& plan, const ConstImageView& source_region_pixels, const ImageView& out,
               ChainScratch& scratch) const;
  /// apply for a joined plan: makes the pictures, one after the other, and what comes of them.
  Status apply_joined(const ChainPlan& plan, PictureSource& source, const ImageView& out,
                      ChainScratch& scratch) const;
  /// Bytes of ChainScratch that apply, or apply_joined, takes for this plan: no fewer than it does.
  static size_t scratch_bytes(const ChainPlan& plan);
  /// The plan as one resize of plan.source_region (a part of what is resized, or all of it) and a flip, where
  /// it is no more than that. Nothing: apply has to do it.
  std::optional<PlannedResize> as_resize(const ChainPlan& plan) const;
  /// normalize, cast and other ops that only describe what the engine does. `normalize` without arguments
  /// takes `dataset`'s mean and std; kMisuse when they aren't known.
  Status fill_prep(BatchPrep& prep, const ChannelStats& dataset = {}) const;
  /// The expression with every parameter spelled out and each op's version, "hflip(p=0.5)@1": what the
  /// pipeline id hashes.
  std::string canonical() const;
  /// What `plan` drew, for people: "rrc[300x200 at 34,20] hflip brightness[1.23]".
  static std::string describe(const ChainPlan& plan);
  bool empty() const { return links_.empty(); }
  bool contains(std::string_view op_name) const;
  /// An op of which `trait` says so, among all that may be chosen too; null: there is none.
  const OpRecord* find(bool OpTraits::*trait) const;
  /// The same of an op's class: one that puts several pictures into one, a JoinOp; ...
  const OpRecord* find_join() const;
  /// ... one that lays objects of another picture over the picture, a PasteOp; ...
  const OpRecord* find_paste() const;
  /// ... one that draws by boxes, a BoxedOp or a PasteOp.
  const OpRecord* find_boxed() const;
  /// The op of plan.draws[i], which is active, and its traits.
  static std::pair<const Op*, const OpTraits*> op_of(const ChainPlan& plan, size_t i);

 private:
  struct Planning;
  const OpRecord* find_link(const std::function<bool(const ChainLink&)>& is_it) const;
  Status add_call(const ExpressionCall& call, std::string_view expression, const OpRegistry& registry,
                  int depth);
  static Result<Chain> parse_nested(std::string_view expression, const OpRegistry& registry, int depth);
  Status plan_links(Planning& planning, bool is_chosen, size_t begin = 0, size_t end = SIZE_MAX) const;
  Status plan_joined(Planning& planning, size_t place) const;
  bool is_drawn(size_t place, RandomStream& rng) const;
  /// Turns the draws into steps that write `needed` of the last op's output: from the last to the first, each op is asked for
  /// what the one behind it reads.
  static void fold(ChainPlan& plan, Region needed);
  static void fold_joined(ChainPlan& plan);

  std::vector<std::shared_ptr<const ChainLink>> links_;
};

}  // namespace dlpipe::augment
