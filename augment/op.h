// One augmentation: what it decides, what it does to pixels, and how it is written in an expression.
//
// Adding one: write ops/NAME.cpp with `extern const OpRecord NAME_augmentation;`,
// tests/augment/ops/NAME_test.cpp and one line in CMakeLists.txt; a program of its own adds its record to an
// OpRegistry value (README.md shows both). Ops are immutable: plan and apply are const and may run on many
// threads at once. kinds.h has bases for the common kinds: per value, per pixel, neighbourhood, movement.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/augment/movement.h"
#include "dlpipe/augment/resize.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::augment {

/// What one op decided for one sample: plain data, hashed into the batch chain. `in`, `turn`,
/// `drawn_region`, `window` and `mirror` are the chain's to set, the rest the op's.
struct OpDraw {
  ImageSize in;                   // the size of the op's whole input
  Region region;                  // the part of it that the op reads; all of it, unless plan says less
  ImageSize out;                  // the size it writes; Op::output's, unless plan says another
  bool active = true;             // false: the op passes its input on unchanged
  bool crop_only = false;         // the output is the region's pixels as they are: the chain needs no copy
  std::array<float, 8> values{};  // anything else
  uint64_t key = 0;               // of a RandomStream, where apply needs random numbers for every pixel
  /// Grows by one from epoch to epoch, and starts at 0 or 1 by the sample: for what takes turns.
  int64_t turn = 0;
  /// The region as plan left it, before narrow.
  Region drawn_region;
  /// The part of `out` that is written: all of it, unless a later op reads less and Op::narrow agreed.
  Region window;
  /// Left and right are swapped in what is written (a folded hflip); only where OpTraits::can_mirror.
  bool mirror = false;
};

/// Mean and standard deviation per channel of pixels scaled to [0, 1]; channels 0: not known.
struct ChannelStats {
  int channels = 0;
  std::array<double, BatchPrep::kMaxChannels> mean{};
  std::array<double, BatchPrep::kMaxChannels> std{};
};

class ChainScratch;

/// A box on its way through a chain, in pixels.
struct MovedBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  double share = 1;   // of its area that clipping to the pictures left
  Place middle = {};  // before it was clipped to the picture at hand
  double area() const { return (right - left) * (bottom - top); }
};

class Op {
 public:
  virtual ~Op() = default;

  /// Size out for a size in; zeros mean "not known", and stay so where the op follows its input.
  virtual ImageSize output(const ImageSize& in) const { return in; }
  /// Draws all random numbers. `in` is known and equals draw.in; draw.region and draw.out hold all of `in` and
  /// output(in). May set a smaller region (within `in`, not empty), another size out, values, key; an op that
  /// passes this sample on sets draw.active = false. An error names no op ("the image is 20x20, smaller than the
  /// crop"); the chain adds it.
  virtual Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const {
    (void)in, (void)rng, (void)draw;
    return {};
  }
  /// Asked to write only `needed` (within draw.window, in coordinates of draw.out, before mirroring): sets
  /// draw.window and shrinks draw.region to what that needs, and answers true; or changes nothing and answers
  /// false. The pixels written must equal those of the whole output.
  virtual bool narrow(const Region& needed, OpDraw& draw) const {
    (void)needed, (void)draw;
    return false;
  }
  /// `in` holds exactly draw.region's pixels; writes all of `out` (draw.window's size), mirrored if
  /// draw.mirror. An op that neither narrows nor says can_mirror need look at neither.
  virtual Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
                       ChainScratch& scratch) const = 0;
  /// Bytes of ChainScratch's work, rows and inner that apply takes for this draw, no fewer than it does: memory is planned by
  /// it (Chain::scratch_bytes). By default as much as is read and written, and some rows; who takes more says so.
  virtual size_t scratch_bytes(const OpDraw& draw, int channels) const;
  /// Where the whole output comes from in the whole input: boxes, points and masks move by it (moving.h). By default
  /// draw.drawn_region is stretched over the output: crops, resizes, and ops that move nothing.
  virtual Movement movement(const OpDraw& draw) const;
};

/// A second base of an op that drops boxes.
class BoxJudge {
 public:
  virtual ~BoxJudge() = default;
  /// False drops the box, which has been moved and clipped.
  virtual bool keeps(const OpDraw& draw, const MovedBox& box) const = 0;
};

/// An op whose draw depends on the boxes of the picture. They are read from the record, so that the pipeline plans such a
/// chain when the record is there.
class BoxedOp : public Op {
 public:
  /// Op::plan; `boxes` as they come to the op: moved and clipped, without those that were dropped.
  virtual Status plan_around(std::span<const MovedBox> boxes, const ImageSize& in, RandomStream& rng,
                             OpDraw& draw) const = 0;
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const final {
    return plan_around({}, in, rng, draw);
  }
};

/// An op that resizes what it reads: a device may do it in its place, and gives the same pixels.
class ResizeOp : public Op {
 public:
  /// What apply does to draw.region's pixels; nothing where it is more than such a resize.
  virtual std::optional<PlannedResize> as_resize(const OpDraw& draw) const = 0;
  /// A resize goes row by row: it takes rows, no picture.
  size_t scratch_bytes(const OpDraw& draw, int channels) const override = 0;
};

/// What touches no pixel and only describes the batch (normalize, cast): it stands at the end of a chain.
class PrepOp {
 public:
  virtual ~PrepOp() = default;
  /// `dataset` is what the data set (or the model's checkpoint) says of its pixels.
  virtual Status fill(const ChannelStats& dataset, BatchPrep& prep) const = 0;
};

/// A choice of other ops (one_of, color_jitter, randaugment): the chain runs what it chooses in its place, as if
/// that had been written there, so flips and crops are folded and regions decoded all the same.
class PolicyOp {
 public:
  virtual ~PolicyOp() = default;
  /// All chains that it may choose.
  virtual std::vector<const Chain*> choices() const = 0;
  struct Count {
    int least;
    int most;
  };
  /// How many a sample goes through, one behind the other.
  virtual Count times() const = 0;
  /// Adds what this sample goes through, in order, as indices of choices().
  virtual void choose(RandomStream& rng, std::vector<int>& chosen) const = 0;
};

/// What the chain may do with an op besides running it, where its class doesn't say so (BoxedOp, BoxJudge, ResizeOp, JoinOp,
/// PasteOp).
struct OpTraits {
  bool can_mirror = false;   // apply honours draw.mirror: a flip behind the op is folded into it
  bool is_mirror = false;    // an active draw swaps left and right and does no more: the chain does it
  bool takes_turns = false;  // plan looks at draw.turn
  bool blends = false;       // shows the picture at several places at once: nothing can move with it
};

/// How an op stands in the table: `dlpipe help ops` prints these rows and the parser builds from them.
struct OpRecord {
  static constexpr const char* kKind = "augmentation";
  static std::span<const OpRecord* const> built_in();  // augmentation_table()

  const char* name;
  const char* help;
  int version;  // raise when pixels or draws change: it is part of the pipeline id
  std::vector<OpParam> params;
  /// Errors say what is wrong with which parameter ("pad must be less than the size, got 40"); the parser adds
  /// the rest, and has checked each parameter's kind, bounds and choices. build_op<T> does for most.
  Result<std::shared_ptr<const Op>> (*build)(OpArguments& arguments);
  OpTraits traits = {};
  /// In build's place (null), of an op that only describes the batch.
  Result<std::shared_ptr<const PrepOp>> (*build_prep)(OpArguments& arguments) = nullptr;
  /// In build's place (null), of an op that chooses others.
  Result<std::shared_ptr<const PolicyOp>> (*build_policy)(OpArguments& arguments) = nullptr;
};

/// The parameter `p` that a record ends with when its op is left out with probability 1 - p. The chain draws that,
/// first of all; the op sees only samples that it is run on.
inline OpParam probability(const char* default_value = "1") {
  return {.name = "p",
          .kind = "float",
          .default_value = default_value,
          .help = "probability",
          .low = 0,
          .high = 1};
}

/// OpRecord::build of an op class with a constructor of (OpArguments&).
template <class T>
Result<std::shared_ptr<const Op>> build_op(OpArguments& arguments) {
  auto op = std::make_shared<const T>(arguments);
  if (!arguments.defect().ok()) return arguments.defect();
  return std::shared_ptr<const Op>(std::move(op));
}

/// OpRecord::build_policy of a class with a constructor of (OpArguments&).
template <class T>
Result<std::shared_ptr<const PolicyOp>> build_policy(OpArguments& arguments) {
  auto policy = std::make_shared<const T>(arguments);
  if (!arguments.defect().ok()) return arguments.defect();
  return std::shared_ptr<const PolicyOp>(std::move(policy));
}

std::span<const OpRecord* const> augmentation_table();
/// A value: copy builtin(), add one's own, hand it to Chain::parse or LoaderOptions.
using OpRegistry = Registry<OpRecord>;

}  // namespace dlpipe::augment
