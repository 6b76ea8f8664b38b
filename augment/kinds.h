// Base classes of common kinds of ops, so that an op consists only of its formula and its record, and of the
// kinds that the chain or the pipeline treat specially: ResizeOp, JoinOp, PasteOp. The base class of a single
// family is in that family's file (ops/). PixelOp and LookupOp are in dlpipe/augment_op.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "augment/color_kernels.h"
#include "augment/copy.h"
#include "augment/neighbourhood_kernels.h"
#include "augment/resize.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

/// An op that resizes its input: a device may do it instead, with the same pixels.
class ResizeOp : public Op {
 public:
  /// What apply does to draw.region's pixels; nullopt if it is more than such a resize.
  virtual std::optional<PlannedResize> as_resize(const OpDraw& draw) const = 0;
  /// A resize works row by row and needs no whole image.
  size_t scratch_bytes(const OpDraw& draw, int channels) const override = 0;
};

// Ops whose output is composed of several images of the dataset (mosaic). The ops before such an op in the chain are planned
// and run for each image separately, with separate random numbers; the ops after it are planned once. Only the part of each
// image that is used in the end is decoded.
//
// The sample's own image is the first; the pipeline draws the others (pipeline/plan/sampler.h). ChainPlan::images has their
// plans, and Chain::apply_joined runs them.

/// Where an image is in the op's output.
struct JoinedPart {
  Region from;  // of the op's input image; empty: it is not visible
  int x = 0;    // position of the upper left corner of `from` in the output
  int y = 0;
};

class JoinOp : public Op {
 public:
  /// The number of images that it needs in addition to the sample's own.
  virtual int others() const = 0;
  /// `sizes` and `parts` are the images', the sample's own first. Draws their places; sets draw.out, draw.values and parts,
  /// which do not overlap (unless it pastes) and are inside draw.out.
  virtual Status place(std::span<const ImageSize> sizes, RandomStream& rng, OpDraw& draw,
                       std::span<JoinedPart> parts) const = 0;
  /// The value of pixels that no image covers.
  virtual Pixel background() const = 0;

  Status apply(const OpDraw&, const ConstImageView&, const ImageView&, ChainScratch&) const final {
    return {ErrorCode::kInternal, "an op that joins images can't be applied to a single one"};
  }
  Movement movement(const OpDraw&) const final { return {}; }
};

/// Pastes some objects of another image onto the sample's own, at the same place. An object's pixels follow from its box, its
/// class and the image's mask (chain_link.h).
class PasteOp : public JoinOp {
 public:
  /// Sets chosen[i] to 1 if object i of the other image is pasted.
  virtual void choose(RandomStream& rng, std::span<uint8_t> chosen) const = 0;
  /// The fraction of an object's pixels that must stay visible; otherwise the object is dropped.
  virtual double least_seen() const = 0;

  int others() const final { return 1; }
  Pixel background() const final { return {}; }
  Status place(std::span<const ImageSize> sizes, RandomStream&, OpDraw& draw,
               std::span<JoinedPart> parts) const final {
    draw.out = sizes[0];
    parts[0].from = {0, 0, sizes[0].width, sizes[0].height};
    parts[1].from = {0, 0, std::min(sizes[0].width, sizes[1].width),
                     std::min(sizes[0].height, sizes[1].height)};
    return {};
  }
};

/// Selects pixels without changing them: crops, and ops that only look at boxes. Base is Op or BoxedOp.
template <class Base>
class CopyingOp : public Base {
 public:
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    copy_image(in, out, false);
    return {};
  }
};

/// Maps every value through a table per channel, which is computed from the whole image's histogram.
class HistogramOp : public Op {
 public:
  virtual void table(const Histogram& seen, LookupTable& table) const = 0;

  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    const std::array<Histogram, 4> seen = histograms(in);
    LookupTables tables;
    for (size_t c = 0; c < size_t(in.channels); ++c) table(seen[c], tables.of[c]);
    look_up(tables, in, out);
    return {};
  }
};

/// Changes the colours of RGB images; grey images pass unchanged.
class ColorOp : public PixelOp {
 public:
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.active = in.channels >= 3;
    return draw.active ? draw_color(rng, draw) : Status();
  }
  virtual Status draw_color(RandomStream& rng, OpDraw& draw) const {
    (void)rng, (void)draw;
    return {};
  }
};

/// A factor: 1 changes nothing, and a single number means a range around 1.
inline OpParam factor_parameter(const char* name, const char* default_value, const char* help) {
  return {.name = name,
          .kind = "spread",
          .default_value = default_value,
          .help = help,
          .low = 0,
          .high = 100,
          .neutral = 1};
}

/// An op in which every pixel depends on those at most `reach` away.
class NeighbourhoodOp : public Op {
 public:
  /// How far it reads to the left and right, and up and down.
  virtual int reach(const OpDraw& draw) const = 0;

  bool narrow(const Region& needed, OpDraw& draw) const override {
    const int far = reach(draw);
    const int left = std::max(needed.x - far, 0);
    const int top = std::max(needed.y - far, 0);
    const int right = std::min(needed.x + needed.width + far, draw.in.width);
    const int bottom = std::min(needed.y + needed.height + far, draw.in.height);
    draw.region = {left, top, right - left, bottom - top};
    draw.window = needed;
    return true;
  }

 protected:
  /// The input of the result: the draw's window with `reach` more pixels on every side, in scratch.work.
  ConstImageView surroundings(const OpDraw& draw, const ConstImageView& in, Border border,
                              ChainScratch& scratch) const {
    const int far = reach(draw);
    return with_margin(in, draw.region, draw.window, draw.in.width, draw.in.height, far, far, border,
                       scratch.work);
  }

  /// Convolves rows and columns with `weights` (neighbourhood_kernels.h), the image mirrored at its border.
  static void blur(const OpDraw& draw, const std::vector<uint16_t>& weights, const ConstImageView& in,
                   const ImageView& out, ChainScratch& scratch) {
    convolve({in, draw.region, draw.window, draw.in.width, draw.in.height}, weights, out, scratch.rows);
  }
};

/// How far a square or line of drawn width reaches to each side. An even number becomes the next odd one, and all odd numbers
/// are equally likely (Albumentations' 3..7: 3, 5 and 7).
inline int draw_reach(const Drawn& width, RandomStream& rng) {
  return Drawn{std::floor(width.low / 2), std::floor(width.high / 2)}.draw_int(rng);
}

/// An op in which every pixel depends on the square around it with the drawn width `size`.
class SquareOp : public NeighbourhoodOp {
 public:
  explicit SquareOp(OpArguments& arguments) : size_(arguments.drawn("size")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(draw_reach(size_, rng));
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(draw.values[0]); }

 private:
  Drawn size_;
};

// The colour that an op sets pixels to: a parameter that several ops share.

inline OpParam fill_parameter(const char* default_value = "0") {
  return {"fill", "color", default_value, "the colour, one number for all channels or r:g:b"};
}

class Fill {
 public:
  Fill(OpArguments& arguments, std::string_view name) : values_(arguments.numbers(name)) {
    for (size_t c = 0; c < pixel_.size(); ++c)
      pixel_[c] = static_cast<uint8_t>(values_[std::min(c, values_.size() - 1)]);
  }
  const Pixel& pixel() const { return pixel_; }
  /// The error for images with this number of channels, if any.
  Status check(int channels) const {
    if (values_.size() == 1 || values_.size() == static_cast<size_t>(channels)) return {};
    return {ErrorCode::kMisuse, concat("fill has ", values_.size(), " values, but the image ", channels,
                                       " channels; give one value, or one per channel")};
  }

 private:
  std::vector<double> values_;
  Pixel pixel_{};
};

// Base of ops that choose other ops: the chains to choose from, given by the user or built in.

class ChainPolicy : public PolicyOp {
 public:
  std::vector<const Chain*> choices() const override {
    std::vector<const Chain*> all;
    for (const auto& chain : chains_) all.push_back(chain.get());
    return all;
  }

 protected:
  explicit ChainPolicy(std::vector<std::shared_ptr<const Chain>> chains) : chains_(std::move(chains)) {}
  /// One expression per choice, of built-in ops; errors in parsing are reported.
  ChainPolicy(OpArguments& arguments, const std::vector<std::string>& expressions) {
    for (const std::string& expression : expressions) {
      Result<Chain> chain = Chain::parse(expression);
      if (!chain.ok()) arguments.refuse({ErrorCode::kInternal, chain.status().message()});
      chains_.push_back(std::make_shared<const Chain>(chain.ok() ? *std::move(chain) : Chain()));
    }
  }
  int count() const { return static_cast<int>(chains_.size()); }

  /// 0 .. count - 1 in a random order (Fisher and Yates).
  static std::vector<int> shuffled(int count, RandomStream& rng) {
    std::vector<int> order(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
    for (int i = count - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[rng.below(static_cast<uint32_t>(i) + 1)]);
    return order;
  }

 private:
  std::vector<std::shared_ptr<const Chain>> chains_;
};

inline OpParam ops_parameter(const char* help) {
  return {"ops", "ops", "", help};
}

}  // namespace dlpipe::augment
