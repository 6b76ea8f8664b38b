// Ops that move pixels: every output pixel is interpolated from a position in the input. The op computes the positions row by
// row; this code reads the pixels. Coordinates are of pixel centres: the first pixel is centred on 0.5.
//
// nearest is Pillow's transform(NEAREST): coordinates of affine maps have 16 bits after the point. bilinear keeps 11 bits of a
// coordinate: results differ from Pillow's transform(BILINEAR) by at most 1. Pixels outside of the image are `fill`; between
// the border and its pixels' centres, the border's pixels are used. All arithmetic after the coordinates is integer, with the
// same bits on every instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "augment/copy.h"
#include "augment/kinds.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

/// Bits after the point of a coordinate.
inline constexpr int kNearestBits = 16;
inline constexpr int kBilinearBits = 11;
/// The limit for a coordinate in fixed point. For sides of at most most_side(bits) pixels, all clamped coordinates are outside.
inline constexpr int32_t kLowestFixed = -(1 << 30);
inline constexpr int32_t kHighestFixed = std::numeric_limits<int32_t>::max();
constexpr int most_side(int bits) {
  return kHighestFixed >> bits;
}

struct SampledImage {
  ConstImageView part;  // the available pixels
  Region region;        // which part of the image they are
  int width = 0;        // of the image
  int height = 0;
};

/// Reads `count` pixels at (x[i], y[i]), coordinates of the whole image with kNearestBits or kBilinearBits after the point.
/// Positions inside the image must be in image.region. Overwrites x.
void sample_nearest(const SampledImage& image, int32_t* x, const int32_t* y, int count, const Pixel& fill,
                    uint8_t* out);
void sample_bilinear(const SampledImage& image, int32_t* x, const int32_t* y, int count, const Pixel& fill,
                     uint8_t* out);

/// Where the centres of pixels [first, first + count) of row y come from by a ProjectiveMap, with `bits` after the point;
/// positions far outside stay outside.
void projective_row(const double* map, int first, int y, int count, int bits, int32_t* x_out, int32_t* y_out);

inline OpParam interpolation_parameter(const char* default_value = "bilinear") {
  return {.name = "interpolation",
          .kind = "string",
          .default_value = default_value,
          .help = "how values between pixels are computed",
          .choices = {"nearest", "bilinear"}};
}

/// The angle of a shear: how far `what` (columns or rows) lean.
inline OpParam lean_parameter(const char* name, const char* what) {
  return {.name = name,
          .kind = "spread",
          .default_value = "0",
          .help = std::string("how far ") + what + " lean",
          .low = -89,
          .high = 89,
          .unit = "degrees"};
}

/// An output of the input's size, with each pixel read from a computed position. Records end their parameters with
/// interpolation_parameter(), fill_parameter(), probability().
class WarpOp : public Op {
 public:
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    DLPIPE_RETURN_IF_ERROR(fill_.check(in.channels));
    const int most = most_side(bits());
    if (std::max(in.width, in.height) > most)
      return Status(ErrorCode::kUnsupported,
                    concat("an image of ", in.width, "x", in.height, " has more than ", most,
                           " pixels on a side, which interpolation=", nearest_ ? "nearest" : "bilinear",
                           " does not support; put a resize or a crop before it"));
    return draw_warp(in, rng, draw);
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override;

 protected:
  explicit WarpOp(OpArguments& arguments)
      : nearest_(arguments.text("interpolation") == "nearest"), fill_(arguments, "fill") {}
  virtual Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const = 0;
  /// Prepares what `row` needs of a draw, in `work`; called once per image.
  virtual void begin(const OpDraw& draw, std::vector<std::byte>& work) const { (void)draw, (void)work; }
  /// Where the pixels [first, first + count) of row y come from, with `bits` after the point.
  virtual void row(const OpDraw& draw, const std::vector<std::byte>& work, int first, int y, int count,
                   int bits, int32_t* x_out, int32_t* y_out) const = 0;

  /// A coordinate in fixed point; positions far outside of any image stay outside.
  static int32_t fixed(double coordinate, int bits) {
    return static_cast<int32_t>(
        std::floor(std::clamp<double>(coordinate * (1 << bits), kLowestFixed, kHighestFixed)));
  }

  int bits() const { return nearest_ ? kNearestBits : kBilinearBits; }

 private:
  bool nearest_;
  Fill fill_;
};

/// A warp whose rows are straight lines. For a part of the output, it needs the bounding box of the source positions.
class ProjectiveOp : public WarpOp {
 public:
  bool narrow(const Region& needed, OpDraw& draw) const override;
  Movement movement(const OpDraw& draw) const override { return Movement(map(draw)); }

 protected:
  using WarpOp::WarpOp;
  /// Computed from the drawn values, with the same result each time.
  virtual ProjectiveMap map(const OpDraw& draw) const = 0;

 private:
  void begin(const OpDraw& draw, std::vector<std::byte>& work) const override;
  void row(const OpDraw& draw, const std::vector<std::byte>& work, int first, int y, int count, int bits,
           int32_t* x_out, int32_t* y_out) const override;
};

/// Rotates, scales, shears and moves an image about its centre, like torchvision's affine: angles in degrees, positive ones
/// clockwise; moves in pixels. The map from output to input.
struct AffineParameters {
  double angle = 0;
  double move_x = 0;
  double move_y = 0;
  double scale = 1;
  double shear_x = 0;
  double shear_y = 0;
};
ProjectiveMap affine_map(const AffineParameters& parameters, double center_x, double center_y);

}  // namespace dlpipe::augment
