// One augmentation: what it decides, what it does to pixels, and how it is written in an expression.
//
// Adding one: write ops/NAME.cpp with `extern const OpRecord NAME_augmentation;`,
// tests/augment/ops/NAME_test.cpp and one line in CMakeLists.txt; a program of its own adds its record to an
// OpRegistry value (README.md shows both). Ops are immutable: plan and apply are const and may run on many
// threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/augment/resize.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::augment {

struct ImageSize {
  int width = 0;  // 0: not known before the sample is
  int height = 0;
  int channels = 3;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// What one op decided for one sample: plain data, hashed into the batch chain. `in`, `turn`, `window` and
/// `mirror` are the chain's to set, the rest the op's.
struct OpDraw {
  ImageSize in;                   // the size of the op's whole input
  Region region;                  // the part of it that the op reads
  ImageSize out;                  // the size it writes
  bool active = true;             // false: the op passes its input on unchanged
  bool crop_only = false;         // the output is the region's pixels as they are: the chain needs no copy
  std::array<float, 4> values{};  // anything else
  /// Grows by one from epoch to epoch, and starts at 0 or 1 by the sample: for what takes turns.
  int64_t turn = 0;
  /// The part of `out` that is written: all of it, unless a later op reads less and ResizeOp::narrow agreed.
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

/// One parameter of an op. Kinds and how they are written:
///   int     12            float   0.5 or 3/4         size    224 or 192x256 (height x width)
///   range   0.08..1       list    0.485:0.456:0.406  string  reflect
/// A parameter whose default is "none" may be left out or given as none.
struct OpParam {
  std::string name;
  std::string kind;
  std::string default_value;  // empty: required
  std::string help;
};

/// The expression's arguments, checked against the record's parameters: every parameter has a value of its
/// kind, written the canonical way ("3/4" has become "0.75").
class OpArguments {
 public:
  std::vector<std::pair<std::string, std::string>> values;  // name, text; in the record's order

  Result<int64_t> integer(std::string_view name) const;
  Result<double> number(std::string_view name) const;
  /// "0.08..1" gives two, "0.485:0.456:0.406" three, "none" none.
  Result<std::vector<double>> numbers(std::string_view name) const;
  Result<std::string> text(std::string_view name) const;
  /// "224" gives {224, 224}, "192x256" height 192 and width 256; is_single (may be null) tells which.
  Result<ImageSize> size(std::string_view name, bool* is_single = nullptr) const;
};

class ChainScratch;

class Op {
 public:
  virtual ~Op() = default;

  /// Size out for a size in; zeros mean "not known", and stay so where the op follows its input.
  virtual ImageSize output(const ImageSize& in) const = 0;
  /// Draws all random numbers. `in` is known and equals draw.in. Sets draw.region (within `in`, not empty)
  /// and draw.out; an op that passes this sample on sets draw.active = false instead. An error names no op
  /// ("the image is 20x20, smaller than the crop"); the chain adds it.
  virtual Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const = 0;
  /// `in` holds exactly draw.region's pixels; writes all of `out` (draw.window's size), mirrored if
  /// draw.mirror. An op whose record doesn't say can_mirror, and that is no ResizeOp, need look at neither.
  virtual Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
                       ChainScratch& scratch) const = 0;
};

/// An op that resizes what it reads, or less: a device may do it in its place, and gives the same pixels.
class ResizeOp : public Op {
 public:
  /// What apply does to draw.region's pixels.
  virtual PlannedResize as_resize(const OpDraw& draw) const = 0;
  /// Asked to write only `needed` (within draw.window, in coordinates of draw.out, before mirroring): sets
  /// draw.window and shrinks draw.region to what that needs, and answers true; or changes nothing and answers
  /// false. The pixels written must equal those of the whole output.
  virtual bool narrow(const Region& needed, OpDraw& draw) const {
    (void)needed, (void)draw;
    return false;
  }
};

/// What touches no pixel and only describes the batch (normalize, cast): it stands at the end of a chain.
class PrepOp {
 public:
  virtual ~PrepOp() = default;
  /// `dataset` is what the data set (or the model's checkpoint) says of its pixels.
  virtual Status fill(const ChannelStats& dataset, BatchPrep& prep) const = 0;
};

/// What the chain may do with an op besides running it.
struct OpTraits {
  bool can_mirror = false;   // apply honours draw.mirror: a flip behind the op is folded into it
  bool is_mirror = false;    // an active draw asks the op before it to write mirrored
  bool takes_turns = false;  // plan looks at draw.turn
};

/// How an op stands in the table: `dlpipe train --help ops` prints these rows and the parser builds from
/// them.
struct OpRecord {
  const char* name;
  const char* help;
  int version;  // raise when pixels or draws change: it is part of the pipeline id
  std::vector<OpParam> params;
  /// Errors say what is wrong with which parameter ("p must lie in 0..1, got 2"); the parser adds the rest.
  Result<std::shared_ptr<const Op>> (*build)(const OpArguments& arguments);
  OpTraits traits = {};
  /// In build's place (null), of an op that only describes the batch.
  Result<std::shared_ptr<const PrepOp>> (*build_prep)(const OpArguments& arguments) = nullptr;
};

/// Ops by name. A value: copy builtin(), add one's own, hand it to Chain::parse or LoaderOptions.
class OpRegistry {
 public:
  /// The ops of dlpipe itself, from the generated table.
  static const OpRegistry& builtin();
  /// Adds, or replaces the record of the same name. The record must outlive the registry.
  void add(const OpRecord& record);
  const OpRecord* find(std::string_view name) const;
  std::span<const OpRecord* const> records() const { return records_; }

 private:
  std::vector<const OpRecord*> records_;
};

std::span<const OpRecord* const> augmentation_table();

}  // namespace dlpipe::augment
