// Flips and quarter turns: pixels move but keep their values.
#include "augment/copy.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/image.h"

namespace dlpipe::augment {

// hflip(p): swaps left and right. The chain lets the previous op write its output mirrored, or mirrors a copy.
namespace {

class HorizontalFlip : public Op {
 public:
  explicit HorizontalFlip(OpArguments&) {}
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    copy_image(in, out, true);
    return {};
  }
  Movement movement(const OpDraw& draw) const override { return Movement::scaled(-1, draw.in.width, 1, 0); }
};

}  // namespace

extern const OpRecord hflip_augmentation = {.name = "hflip",
                                            .help = "swap left and right (RandomHorizontalFlip)",
                                            .version = 1,
                                            .params = {probability("0.5")},
                                            .build = build_op<HorizontalFlip>,
                                            .traits = {.is_mirror = true}};

// alternating_flip: swaps left and right every other epoch, half of the samples in the even epochs. So each sample
// is seen equally often both ways, while a random flip in every epoch achieves this only on average
// (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, section 3.6).
namespace {

class AlternatingFlip : public Op {
 public:
  explicit AlternatingFlip(OpArguments&) {}
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    draw.active = draw.turn % 2 == 1;
    return {};
  }
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    copy_image(in, out, true);
    return {};
  }
  Movement movement(const OpDraw& draw) const override { return Movement::scaled(-1, draw.in.width, 1, 0); }
};

}  // namespace

extern const OpRecord alternating_flip_augmentation = {.name = "alternating_flip",
                                                       .help = "swap left and right every other epoch",
                                                       .version = 1,
                                                       .params = {},
                                                       .build = build_op<AlternatingFlip>,
                                                       .traits = {.is_mirror = true, .takes_turns = true}};

// Ops that turn or mirror the whole image without changing a pixel, as an EXIF orientation does
// (dlpipe/image.h): the drawn orientation is values[0]. They read only the part of the input that is needed.
namespace {

class OrientedOp : public Op {
 public:
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.window = needed;
    draw.region = stored_region(needed, draw.out.width, draw.out.height, orientation(draw));
    return true;
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    turn_image(in, orientation(draw), out);
    return {};
  }

  // The inverse of dlpipe/image.h's table.
  Movement movement(const OpDraw& draw) const override {
    const double w = draw.in.width;
    const double h = draw.in.height;
    switch (orientation(draw)) {
      case 2:
        return Movement::scaled(-1, w, 1, 0);
      case 3:
        return Movement::scaled(-1, w, -1, h);
      case 4:
        return Movement::scaled(1, 0, -1, h);
      case 5:
        return Movement(ProjectiveMap{0, 1, 0, 1, 0, 0, 0, 0});
      case 6:
        return Movement(ProjectiveMap{0, 1, 0, -1, 0, h, 0, 0});
      case 7:
        return Movement(ProjectiveMap{0, -1, w, -1, 0, h, 0, 0});
      case 8:
        return Movement(ProjectiveMap{0, -1, w, 1, 0, 0, 0, 0});
      default:
        return {};
    }
  }

 protected:
  static Orientation orientation(const OpDraw& draw) { return static_cast<Orientation>(draw.values[0]); }
  static void set_orientation(int orientation, OpDraw& draw) {
    draw.values[0] = static_cast<float>(orientation);
    draw.active = orientation != 1;
    draw.out = swaps_axes(static_cast<Orientation>(orientation))
                   ? ImageSize{draw.in.height, draw.in.width, draw.in.channels}
                   : draw.in;
  }
  /// The output's size if the axes may be swapped: known only for a square image.
  static ImageSize square_or_unknown(const ImageSize& in) {
    return in.width == in.height ? in : ImageSize{0, 0, in.channels};
  }
};

}  // namespace

// vflip(p): swaps top and bottom.
namespace {

class VerticalFlip : public OrientedOp {
 public:
  explicit VerticalFlip(OpArguments&) {}
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    set_orientation(4, draw);
    return {};
  }
};

}  // namespace

extern const OpRecord vflip_augmentation = {.name = "vflip",
                                            .help = "swap top and bottom (RandomVerticalFlip)",
                                            .version = 1,
                                            .params = {probability("0.5")},
                                            .build = build_op<VerticalFlip>};

// rot90(times): turns by quarters, counterclockwise (numpy.rot90); the size of an image that isn't square may change.
namespace {

class Rotate90 : public OrientedOp {
 public:
  explicit Rotate90(OpArguments& arguments) : times_(arguments.drawn("times")) {}
  ImageSize output(const ImageSize& in) const override {
    if (times_.low != times_.high) return square_or_unknown(in);
    return static_cast<int>(times_.low) % 2 == 0 ? in : ImageSize{in.height, in.width, in.channels};
  }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    constexpr std::array<int, 4> kOrientations = {1, 8, 3, 6};
    set_orientation(kOrientations[static_cast<size_t>(times_.draw_int(rng))], draw);
    return {};
  }

 private:
  Drawn times_;
};

}  // namespace

extern const OpRecord rot90_augmentation = {
    .name = "rot90",
    .help = "rotate by quarter turns, counterclockwise (RandomRotate90)",
    .version = 1,
    .params = {{.name = "times",
                .kind = "ints",
                .default_value = "0..3",
                .help = "number of quarter turns, counterclockwise",
                .low = 0,
                .high = 3,
                .unit = "quarters"},
               probability()},
    .build = build_op<Rotate90>};

// transpose(p): swaps rows and columns; the size of an image that isn't square changes.
namespace {

class Transpose : public OrientedOp {
 public:
  explicit Transpose(OpArguments&) {}
  ImageSize output(const ImageSize& in) const override { return {in.height, in.width, in.channels}; }
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    set_orientation(5, draw);
    return {};
  }
};

}  // namespace

extern const OpRecord transpose_augmentation = {.name = "transpose",
                                                .help = "swap rows and columns",
                                                .version = 1,
                                                .params = {probability("0.5")},
                                                .build = build_op<Transpose>};

}  // namespace dlpipe::augment
