// A chain of augmentations: parsed from an expression, planned per sample, applied to pixels.
//
//   Result<Chain> chain = Chain::parse("rrc(224) hflip");   // errors name the op, the position, the nearest name
//   Status status = chain->plan(source_size, key, plan);    // every random number of one sample, drawn first
//   ConstImageView pixels = decode(plan.source_region);     // only what the plan reads
//   status = chain->apply(plan, pixels, out, scratch);      // the last op writes straight into `out`
//
// Ownership: a Chain is a value; copies share its ops. A plan refers to its chain. Threads: a Chain is immutable after parse
// and may be used from any number of threads; a plan and a scratch belong to one. plan and apply are pure functions of their
// arguments: the same key produces the same pixels on every ISA and thread. Cost: parse allocates; plan and apply stop
// allocating once their plan and scratch have grown.
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

#include "dlpipe/augment_op.h"
#include "dlpipe/batch.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "dlpipe/random.h"

namespace dlpipe::augment {

struct ChainLink;  // one op of a chain, built
struct ExpressionCall;
struct JoinedImage;

/// One op that apply runs, and the part of its input image that it reads.
struct ChainStep {
  static constexpr int kCopy = -1;  // no op: the part is copied
  int op = kCopy;                   // index into the plan's draws
  Region input;
  bool mirror = false;  // for a copy: swap left and right
};

/// Which pixels of a PasteOp's output are those of the other image.
struct Overlay {
  Region region;                // contains them, in the op's output; empty: there are none
  std::vector<uint8_t> pasted;  // [region] 1: the pixel is from the other image
  bool at(int x, int y) const {
    x -= region.x, y -= region.y;
    return x >= 0 && y >= 0 && x < region.width && y < region.height &&
           pasted[static_cast<size_t>(y) * static_cast<size_t>(region.width) + static_cast<size_t>(x)] != 0;
  }
};

/// Everything decided for one sample. Reused between samples; holds no pixels.
struct ChainPlan {
  ImageSize source;                     // the whole image
  Region source_region;                 // what to decode, in the oriented source image
  ImageSize out;                        // what apply writes
  std::vector<OpDraw> draws;            // one per op, in order; a policy is replaced by the ops that it chose
  std::vector<const ChainLink*> links;  // [draws] the ops, which belong to the chain
  std::vector<ChainStep> steps;  // what apply runs: crops, flips and inactive ops have been folded away
  uint64_t hash = 0;             // over all drawn parameters; part of the batch chain
  /// The input images of an op that combines several into one (JoinOp), each with its own plan. `source` is then the op's
  /// output, source_region the part of it that is needed, and draws and steps are those of the op and of later ops.
  std::vector<JoinedImage> images;
  bool pastes = false;  // the op pastes the second image's objects onto the first
  Overlay overlay;      // if it pastes: where

  bool is_joined() const;
  /// True if source_region's pixels are the output: a caller may decode directly into the slot.
  bool is_copy() const { return steps.empty(); }
};

/// One image of a joined plan.
struct JoinedImage {
  /// plan.out covers only the needed part; 0 x 0: none of the image is needed, and there are no steps.
  ChainPlan plan;
  Region from;  // the part of the op's input image that the op places
  int x = 0;    // position of the upper left corner of `from` in the op's output
  int y = 0;
  Region needed;  // what plan's steps write, in the op's output
  /// If objects are pasted: the image's boxes after the op, in the order of PlannedImage::boxes; nullopt: dropped.
  std::vector<std::optional<MovedBox>> boxes;
};

inline bool ChainPlan::is_joined() const {
  return !images.empty();
}

/// Provides pixels to apply_joined.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// Returns the part plan.source_region of image `index` of the plan, valid until the next call. If plan.is_copy(),
  /// writes the pixels into `out` and returns it.
  virtual Result<ConstImageView> pixels(size_t index, const ChainPlan& plan, const ImageView& out) = 0;
};

/// An image to plan a chain for.
struct PlannedImage {
  ImageSize size;
  int64_t sample = 0;
  /// Rows of x_min, y_min, x_max, y_max, in pixels of the image, for the draws of BoxedOps and PasteOps.
  std::span<const float> boxes = {};
  /// A PasteOp also reads a class per box (empty: not known) and the mask of the whole image (width 0: none).
  std::span<const int64_t> labels = {};
  ConstImageView mask = {};
};

/// Intermediate images of one thread. Grows to the largest size seen and never shrinks.
class ChainScratch {
 public:
  std::array<std::vector<uint8_t>, 2> images;  // written alternately by all ops but the last
  std::vector<std::byte> work;                 // an op's own rows, weights and tables
  std::vector<std::byte> rows;                 // kept between an op's passes
  std::vector<uint8_t> joined;                 // several images combined into one
  std::vector<uint8_t> pasted;                 // an image that is pasted onto another
  std::unique_ptr<ChainScratch> inner;         // for an op that runs chains itself
  /// Grows one of these buffers to exactly `bytes` if it is smaller. Its contents are then lost.
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
  /// `registry` is the built-in table plus the program's own ops. It is needed during the call only; its
  /// records must outlive the chain.
  static Result<Chain> parse(std::string_view expression, const OpRegistry& registry = OpRegistry::builtin());

  /// Size of the output images, [H, W, C]; kMisuse if it depends on the source image (add a resize or
  /// crop). Zeros in `source_or_any` mean that the source size differs between samples.
  Result<ImageSize> output(const ImageSize& source_or_any) const;
  /// Size of the output images, with zeros where it depends on the sample.
  ImageSize size_after(const ImageSize& in) const;
  /// Returns an error if the chain can't process the sample (an image smaller than a crop).
  Status plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const;
  /// How many other images this sample needs: 0, unless an op that joins images is drawn.
  int others(const SampleKey& key) const;
  /// The same for a sample followed by others(key) more images.
  Status plan(std::span<const PlannedImage> images, const SampleKey& key, ChainPlan& plan) const;
  /// `source_region_pixels` has the size of plan.source_region, `out` that of plan.out. They must not overlap.
  Status apply(const ChainPlan& plan, const ConstImageView& source_region_pixels, const ImageView& out,
               ChainScratch& scratch) const;
  /// apply for a joined plan: computes the images one after another, then the joined output.
  Status apply_joined(const ChainPlan& plan, ImageSource& source, const ImageView& out,
                      ChainScratch& scratch) const;
  /// An upper bound of the bytes that apply or apply_joined uses in ChainScratch for this plan.
  static size_t scratch_bytes(const ChainPlan& plan);
  /// Applies normalize, cast and other ops that only describe what the engine does. `normalize` without arguments
  /// uses the mean and std of `dataset`; kMisuse if they aren't known.
  Status fill_prep(BatchPrep& prep, const ChannelStats& dataset = {}) const;
  /// The expression with every parameter spelled out and each op's version, "hflip(p=0.5)@1". The pipeline id
  /// is a hash over it.
  std::string canonical() const;
  /// What `plan` drew, for users: "rrc[300x200 at 34,20] hflip brightness[1.23]".
  static std::string describe(const ChainPlan& plan);
  bool empty() const { return links_.empty(); }
  bool contains(std::string_view op_name) const;
  /// The first op with this trait, including ops that a policy may choose; null: there is none.
  const OpRecord* find(bool OpTraits::*trait) const;
  /// The same for a JoinOp, which combines several images into one.
  const OpRecord* find_join() const;
  /// The same for a PasteOp, which pastes objects of another image onto the image.
  const OpRecord* find_paste() const;
  /// The same for a BoxedOp or a PasteOp, which draw depending on boxes.
  const OpRecord* find_boxed() const;
  /// An op with results that depend on the draw; null if the chain always produces the same output for an image. Plans some
  /// draws.
  const OpRecord* find_random() const;
  /// Whether images of any sides are resized as a whole to the output's size, whatever is drawn. Plans some draws.
  bool resizes_whole_images() const;
  /// The op of plan.draws[i], which must be active, and its traits.
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
  /// Turns the draws into steps that write `needed` of the last op's output. Works from the last op to the
  /// first: each op determines which part of the previous op's output it needs.
  static void fold(ChainPlan& plan, Region needed);
  static void fold_joined(ChainPlan& plan);

  std::vector<std::shared_ptr<const ChainLink>> links_;
};

/// kMisuse if a black or a white pixel becomes infinite in `dtype`, as with a std near 0.
Status check_pixel_range(const BatchPrep& prep, DType dtype);

}  // namespace dlpipe::augment
