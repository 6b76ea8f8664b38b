// Custom augmentations: an op with its parameters, what it draws for a sample, what it does to pixels, and how it moves boxes,
// points and masks. Chains of built-in and custom ops are in dlpipe/augment.h.
//
//   struct Negative final : augment::LookupOp {
//     explicit Negative(augment::OpArguments&) {}
//     uint8_t value(const augment::OpDraw&, int from) const override { return static_cast<uint8_t>(255 - from); }
//   };
//   const augment::OpRecord kNegative{
//       "negative", "The negative of the image", 1, {augment::probability("0.5")}, augment::build_op<Negative>};
//   registries.augmentations.add(kNegative);  // or an OpRegistry that you pass to Chain::parse or LoaderOptions
//
// Ownership: a chain shares its ops; records belong to the program and must outlive registries and chains. Threads:
// ops are immutable; plan() and apply() are const and run on many threads at once. Cost: plan() runs once per sample and op,
// apply() once per sample that the op is drawn for; both are in the hot path and should not allocate.
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

#include "dlpipe/batch.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "dlpipe/random.h"
#include "dlpipe/registry.h"

namespace dlpipe::augment {

class Chain;
class ChainScratch;

// ---- parameters: a record's declaration and the values from an expression. The parser checks kinds, bounds and choices
// against the declaration, so that an op's constructor only has to read them.

struct ImageSize {
  int width = 0;  // 0: depends on the sample
  int height = 0;
  int channels = 3;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// One parameter of an op. Kinds and how they are written:
///   int     12                 float   0.5 or 3/4             size    224 or 192x256 (height x width)
///   range   0.08..1            list    0.485:0.456:0.406      string  reflect, one of `choices` if there are any
///   drawn   1.5, or 0.5..1.5: drawn uniformly from it         ints    4, or 4..8: drawn uniformly, ends included
///   spread  0.4 means the range 0.4 around `neutral`, cut off at `low`; or an explicit range LO..HI
///   color   0 or 124:116:104: whole numbers in 0..255, one for all channels or one per channel
///   ops     ops of this grammar, blanks between them and '|' between alternatives
/// A parameter with the default "none" may be omitted or given as none.
struct OpParam {
  std::string name;
  std::string kind;
  std::string default_value;  // empty: required
  std::string help;
  /// The bounds of every number in the value.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string unit = {};  // "degrees", "pixels"; empty: a plain number
  double neutral = 0;     // for kind spread: the value that changes nothing
  std::vector<std::string> choices = {};
  /// The parameter was added after the op was released. Its default value is left out of the chain's canonical text, so
  /// that older runs keep their pipeline id.
  bool is_late = false;
};

/// A number that is drawn for every sample, uniformly from [low, high).
struct Drawn {
  double low = 0;
  double high = 0;
  /// Uses one number of the stream, even if low equals high.
  double draw(RandomStream& rng) const { return low + (high - low) * rng.uniform_double(); }
  /// Draws a whole number, both ends included.
  int draw_int(RandomStream& rng) const {
    return static_cast<int>(low) + static_cast<int>(rng.below(static_cast<uint32_t>(high - low) + 1));
  }
};

/// The expression's arguments: every parameter has a value of its kind, in canonical form ("3/4" becomes
/// "0.75"). Reading a parameter that the record doesn't declare, or as another kind, is a bug in the op:
/// the result is 0 or empty, and defect() reports it.
class OpArguments {
 public:
  std::vector<std::pair<std::string, std::string>> values;  // name, text; in the record's order
  /// The parsed value of the parameter of kind "ops".
  std::vector<std::shared_ptr<const Chain>> chains;

  int integer(std::string_view name);
  double number(std::string_view name);
  /// "0.08..1" returns two numbers, "0.485:0.456:0.406" three, "none" none.
  std::vector<double> numbers(std::string_view name);
  /// For kinds range, drawn, ints and spread.
  Drawn drawn(std::string_view name);
  std::string text(std::string_view name);
  /// "224" returns {224, 224}, "192x256" height 192 and width 256. If is_single isn't null, it is set to true for
  /// the first form.
  ImageSize size(std::string_view name, bool* is_single = nullptr);
  /// Whether the value is "none".
  bool is_none(std::string_view name);

  /// For checks that an op does itself ("pad must be less than the size, got 40"): the parser adds op and position.
  void refuse(Status reason) {
    if (defect_.ok()) defect_ = std::move(reason);
  }
  /// The first error of refuse() or of a wrong read; ok if there was none.
  const Status& defect() const { return defect_; }

 private:
  const std::string* find(std::string_view name) const;
  void no_such(std::string_view name, std::string_view kind);

  Status defect_;
};

// ---- how an op moves the content of an image: the mapping from places in its output to places in its input, and back.
// An op defines it once (Op::movement); the chain uses it to move boxes, points and masks.
//
// Coordinates are in pixels; (0, 0) is the upper left corner of the upper left pixel, and (0.5, 0.5) is its center. These types
// are values and may be used on any thread. They use only + - * / and square roots, so that the bits are the same on every
// machine.

struct Place {
  double x = 0;
  double y = 0;
};

/// x_in = (m[0] x + m[1] y + m[2]) / w, y_in = (m[3] x + m[4] y + m[5]) / w, w = m[6] x + m[7] y + 1.
using ProjectiveMap = std::array<double, 8>;

/// A movement that is not a projective map.
class FreeMovement {
 public:
  virtual ~FreeMovement() = default;
  /// source: the place in the input that an output place comes from. target: the place in the output that an input place
  /// goes to.
  virtual Place source(Place out) const = 0;
  virtual Place target(Place in) const = 0;
};

class Movement {
 public:
  /// The identity.
  Movement() = default;
  /// `source` maps output to input.
  explicit Movement(const ProjectiveMap& source);
  explicit Movement(std::shared_ptr<const FreeMovement> free) : free_(std::move(free)) {}
  /// x_in = scale_x x_out + x, y_in = scale_y y_out + y; the scales are not 0.
  static Movement scaled(double scale_x, double x, double scale_y, double y);
  static Movement shifted(double x, double y) { return scaled(1, x, 1, y); }

  bool is_none() const { return free_ == nullptr && source_ == kNone; }
  /// True if straight lines stay straight, so that moving a box's corners moves its outline.
  bool keeps_lines() const { return free_ == nullptr; }
  /// True if rows and columns stay aligned with the axes: each column of the output comes from one column of the input, or
  /// from one row if `swaps_axes`.
  bool keeps_axes() const;
  /// Only for a movement that keeps axes.
  bool swaps_axes() const { return source_[0] == 0; }
  Place source(Place out) const;
  /// Replaces each (xs[i], ys[i]) by its `source`, with the same bits. Only for a movement that keeps lines.
  void sources(std::span<double> xs, std::span<double> ys) const;
  /// nullopt: the place is behind the horizon of a perspective.
  std::optional<Place> target(Place in) const;

 private:
  using Matrix = std::array<double, 9>;
  static constexpr Matrix kNone = {1, 0, 0, 0, 1, 0, 0, 0, 1};

  Matrix source_ = kNone;
  Matrix target_ = kNone;  // the inverse, up to a positive factor
  std::shared_ptr<const FreeMovement> free_;
};

// ---- an op

/// What one op decided for one sample: plain data, hashed into the batch chain. The chain sets `in`, `turn`,
/// `drawn_region`, `window` and `mirror`; the op sets the rest.
struct OpDraw {
  ImageSize in;                   // the size of the op's whole input
  Region region;                  // the part of it that the op reads; all of it, unless plan() sets less
  ImageSize out;                  // the size it writes: Op::output, unless plan() sets another
  bool active = true;             // false: the op passes its input on unchanged
  bool crop_only = false;         // the output is the region's pixels, unchanged: the chain needs no copy
  std::array<float, 8> values{};  // anything else
  uint64_t key = 0;               // for a RandomStream, if apply() needs random numbers for every pixel
  /// Increases by one each epoch, starting at 0 or 1 depending on the sample: for ops that alternate between epochs.
  int64_t turn = 0;
  /// The region set by plan(), before narrow().
  Region drawn_region;
  /// The part of `out` that is written: all of it, unless a later op reads less and Op::narrow() returned true.
  Region window;
  /// Write with left and right swapped (a folded hflip); only with OpTraits::can_mirror.
  bool mirror = false;
};

/// Mean and standard deviation per channel of pixels scaled to [0, 1]; channels 0: not known.
struct ChannelStats {
  int channels = 0;
  std::array<double, BatchPrep::kMaxChannels> mean{};
  std::array<double, BatchPrep::kMaxChannels> std{};
};

/// A box that passes through a chain, in pixels.
struct MovedBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  double share = 1;   // the fraction of its area that remains after clipping to the images
  Place middle = {};  // its center before it was clipped to the present image
  double area() const { return (right - left) * (bottom - top); }
};

class Op {
 public:
  virtual ~Op() = default;

  /// The output size for an input size. Zeros mean "not known"; they stay zero if the output follows the input.
  virtual ImageSize output(const ImageSize& in) const { return in; }
  /// Draws all random numbers. `in` is known and equals draw.in; draw.region is all of `in`, and draw.out is
  /// output(in). May set a smaller region (within `in`, not empty), another output size, values and key. To pass
  /// this sample on unchanged, set draw.active = false. An error does not name the op ("the image is 20x20, smaller
  /// than the crop"); the chain adds the name.
  virtual Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const {
    (void)in, (void)rng, (void)draw;
    return {};
  }
  /// Asks the op to write only `needed` (within draw.window, in coordinates of draw.out, before mirroring). Either
  /// sets draw.window, shrinks draw.region to what that needs and returns true, or changes nothing and returns
  /// false. The written pixels must equal those of the whole output.
  virtual bool narrow(const Region& needed, OpDraw& draw) const {
    (void)needed, (void)draw;
    return false;
  }
  /// Writes all of `out` (draw.window's size), mirrored if draw.mirror. `in` holds exactly draw.region's pixels. An
  /// op that neither implements narrow() nor sets can_mirror can ignore window and mirror.
  virtual Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
                       ChainScratch& scratch) const = 0;
  /// An upper bound of the bytes that apply() uses in ChainScratch's work, rows and inner for this draw; memory is planned
  /// with it (Chain::scratch_bytes). Default: the bytes read and written, and 64 KiB. Override it if apply() uses more.
  virtual size_t scratch_bytes(const OpDraw& draw, int channels) const;
  /// The mapping from the whole output to the whole input, which moves boxes, points and masks. Default: stretches
  /// draw.drawn_region over the output, which is right for crops, resizes and ops that move nothing.
  virtual Movement movement(const OpDraw& draw) const;
};

/// A second base class for ops that drop boxes.
class BoxJudge {
 public:
  virtual ~BoxJudge() = default;
  /// Returns false to drop the box, which has already been moved and clipped.
  virtual bool keeps(const OpDraw& draw, const MovedBox& box) const = 0;
};

/// An op with draws that depend on the boxes of the image. The boxes are in the record, so that the pipeline plans such
/// a chain after it has read the record.
class BoxedOp : public Op {
 public:
  /// Like Op::plan. `boxes` are the op's input: moved and clipped by earlier ops, without dropped ones.
  virtual Status plan_around(std::span<const MovedBox> boxes, const ImageSize& in, RandomStream& rng,
                             OpDraw& draw) const = 0;
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const final {
    return plan_around({}, in, rng, draw);
  }
};

/// An op that touches no pixels and only describes the batch (normalize, cast). It is at the end of a chain.
class PrepOp {
 public:
  virtual ~PrepOp() = default;
  /// `dataset` is the pixel statistics of the dataset or of the model's checkpoint.
  virtual Status fill(const ChannelStats& dataset, BatchPrep& prep) const = 0;
};

/// A random choice of other ops (one_of, color_jitter, randaugment). The chain runs the chosen ops as if they
/// were written in its place: flips and crops are still folded, and only needed regions are decoded.
class PolicyOp {
 public:
  virtual ~PolicyOp() = default;
  /// All chains that it may choose from.
  virtual std::vector<const Chain*> choices() const = 0;
  struct Count {
    int least;
    int most;
  };
  /// How many of the choices are applied to a sample, one after another.
  virtual Count times() const = 0;
  /// Appends the choices for this sample, in order, as indices into choices().
  virtual void choose(RandomStream& rng, std::vector<int>& chosen) const = 0;
};

/// What the chain may do with an op besides running it, as far as the op's class (BoxedOp, BoxJudge and internal ones)
/// doesn't determine it.
struct OpTraits {
  bool can_mirror = false;   // apply() honours draw.mirror: a flip after the op is folded into it
  bool is_mirror = false;    // an active draw only swaps left and right: the chain does that itself
  bool takes_turns = false;  // plan() reads draw.turn
  bool blends = false;  // shows the image at several places at once: boxes, points and masks can't follow
};

// ---- records

/// An op's row in the table. `dlpipe help ops` prints these rows, and the parser builds ops from them.
struct OpRecord {
  static constexpr const char* kKind = "augmentation";
  static std::span<const OpRecord* const> built_in();  // augmentation_table()

  const char* name;
  const char* help;
  int version;  // increase it when pixels or draws change: it is part of the pipeline id
  std::vector<OpParam> params;
  /// Builds the op. The parser has already checked each parameter's kind, bounds and choices. Errors say what is wrong
  /// with which parameter ("pad must be less than the size, got 40"); the parser adds the rest. build_op<T> fits most ops.
  Result<std::shared_ptr<const Op>> (*build)(OpArguments& arguments);
  OpTraits traits = {};
  /// Builds an op that only describes the batch, instead of `build`, which is then null.
  Result<std::shared_ptr<const PrepOp>> (*build_prep)(OpArguments& arguments) = nullptr;
  /// Builds an op that chooses other ops, instead of `build`, which is then null.
  Result<std::shared_ptr<const PolicyOp>> (*build_policy)(OpArguments& arguments) = nullptr;
};

/// The last parameter, `p`, of an op that is skipped with probability 1 - p. The chain draws this before
/// everything else; the op only sees samples that it is applied to.
inline OpParam probability(const char* default_value = "1") {
  return {.name = "p",
          .kind = "float",
          .default_value = default_value,
          .help = "probability",
          .low = 0,
          .high = 1};
}

/// OpRecord::build for an op class with a constructor that takes (OpArguments&).
template <class T>
Result<std::shared_ptr<const Op>> build_op(OpArguments& arguments) {
  auto op = std::make_shared<const T>(arguments);
  if (!arguments.defect().ok()) return arguments.defect();
  return std::shared_ptr<const Op>(std::move(op));
}

/// OpRecord::build_policy for a class with a constructor that takes (OpArguments&).
template <class T>
Result<std::shared_ptr<const PolicyOp>> build_policy(OpArguments& arguments) {
  auto policy = std::make_shared<const T>(arguments);
  if (!arguments.defect().ok()) return arguments.defect();
  return std::shared_ptr<const PolicyOp>(std::move(policy));
}

std::span<const OpRecord* const> augmentation_table();
/// A value: copy builtin(), add your own records and pass it to Chain::parse or LoaderOptions.
using OpRegistry = Registry<OpRecord>;

// ---- base classes for common kinds of ops

/// An op that computes every output pixel from the same pixel of the input: a part of the output needs only that part of the
/// input.
class PixelOp : public Op {
 public:
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.region = draw.window = needed;
    return true;
  }
};

/// An op that looks every value up in a table, the same for all channels.
class LookupOp : public PixelOp {
 public:
  /// The output for the input value `from`, 0..255.
  virtual uint8_t value(const OpDraw& draw, int from) const = 0;

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override;
};

}  // namespace dlpipe::augment
