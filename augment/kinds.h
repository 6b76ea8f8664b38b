// Bases of the common kinds of ops, so that an op's file holds its formula and its record.
#pragma once

#include <algorithm>
#include <cmath>

#include "dlpipe/augment/blur_kernels.h"
#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/neighbourhood_kernels.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/augment/pixel_kernels.h"

namespace dlpipe::augment {

/// Every pixel is made of the same pixel of the input: of a part of the picture it needs that part.
class PixelOp : public Op {
 public:
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.region = draw.window = needed;
    return true;
  }
};

/// Chooses pixels and changes none: crops, and what looks at boxes alone. Base is Op or BoxedOp.
template <class Base>
class CopyingOp : public Base {
 public:
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    copy_image(in, out, false);
    return {};
  }
};

/// Every value is looked up in a table, one for all channels.
class LookupOp : public PixelOp {
 public:
  /// What becomes of value 0..255.
  virtual uint8_t value(const OpDraw& draw, int from) const = 0;

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    LookupTables tables;
    for (int from = 0; from < 256; ++from) tables.of[0][static_cast<size_t>(from)] = value(draw, from);
    for (size_t c = 1; c < tables.of.size(); ++c) tables.of[c] = tables.of[0];
    look_up(tables, in, out);
    return {};
  }
};

/// Every value is looked up in a table per channel that follows from how often each value occurs in the whole
/// picture.
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

/// Changes the colours of RGB pictures; grey ones have none and pass unchanged.
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

/// A factor of which 1 changes nothing: around 1 where it is given as one number.
inline OpParam factor_parameter(const char* name, const char* default_value, const char* help) {
  return {.name = name,
          .kind = "spread",
          .default_value = default_value,
          .help = help,
          .low = 0,
          .high = 100,
          .neutral = 1};
}

/// Every pixel is made of those at most `reach` away.
class NeighbourhoodOp : public Op {
 public:
  /// How far it looks to the left and right, up and down.
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
  /// What the result is made of: the draw's window with `reach` more pixels on every side. Lies in scratch.work.
  ConstImageView surroundings(const OpDraw& draw, const ConstImageView& in, Border border,
                              ChainScratch& scratch) const {
    const int far = reach(draw);
    return with_margin(in, draw.region, draw.window, draw.in.width, draw.in.height, far, far, border,
                       scratch.work);
  }

  /// Convolves rows and columns with `weights` (blur_weights.h), the picture mirrored at its border.
  static void blur(const OpDraw& draw, const std::vector<uint16_t>& weights, const ConstImageView& in,
                   const ImageView& out, ChainScratch& scratch) {
    convolve({in, draw.region, draw.window, draw.in.width, draw.in.height}, weights, out, scratch.rows);
  }
};

/// How far a square or line of drawn width reaches to each side. An even number becomes the next odd one, and each odd one
/// from there is drawn as often (Albumentations' 3..7: 3, 5 and 7).
inline int draw_reach(const Drawn& width, RandomStream& rng) {
  return Drawn{std::floor(width.low / 2), std::floor(width.high / 2)}.draw_int(rng);
}

/// Every pixel is made of a square around it, whose drawn width is `size`.
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

}  // namespace dlpipe::augment
