// perspective(distortion): each corner moved inwards by up to distortion / 2 of the width and height, whole pixels, and the
// picture drawn into them (torchvision's RandomPerspective).
#include <cmath>

#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class Perspective : public ProjectiveOp {
 public:
  explicit Perspective(OpArguments& arguments)
      : ProjectiveOp(arguments), distortion_(arguments.number("distortion")) {}

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.active = in.width > 1 && in.height > 1;  // a line has no other side
    // The corners from the top left clockwise: how far each is moved inwards.
    const int half_width = in.width / 2, half_height = in.height / 2;
    for (size_t i = 0; i < 8; i += 2) {
      const auto far_x = static_cast<uint32_t>(distortion_ * half_width);
      const auto far_y = static_cast<uint32_t>(distortion_ * half_height);
      draw.values[i] = static_cast<float>(rng.below(far_x + 1));
      draw.values[i + 1] = static_cast<float>(rng.below(far_y + 1));
    }
    return {};
  }

  // From where the corners are drawn to, to where they come from: Heckbert, "Fundamentals of Texture Mapping and Image
  // Warping" (1989), 2.2.3: the square's map to each quadrilateral.
  ProjectiveMap map(const OpDraw& draw) const override {
    const double right = draw.in.width - 1;
    const double bottom = draw.in.height - 1;
    const auto at = [&](size_t i) { return static_cast<double>(draw.values[i]); };
    const std::array<double, 8> to = {at(0),         at(1),          right - at(2), at(3),
                                      right - at(4), bottom - at(5), at(6),         bottom - at(7)};
    const Matrix forward = from_square(to);
    // The inverse of the square's map to `to`, then the square stretched to the picture.
    const Matrix back = adjugate(forward);
    Matrix m = back;
    for (size_t c = 0; c < 3; ++c) {
      m[c] *= right;
      m[3 + c] *= bottom;
    }
    return {m[0] / m[8], m[1] / m[8], m[2] / m[8], m[3] / m[8],
            m[4] / m[8], m[5] / m[8], m[6] / m[8], m[7] / m[8]};
  }

  using Matrix = std::array<double, 9>;

  /// (0,0), (1,0), (1,1), (0,1) to the four corners.
  static Matrix from_square(const std::array<double, 8>& p) {
    const double dx1 = p[2] - p[4], dx2 = p[6] - p[4], dx3 = p[0] - p[2] + p[4] - p[6];
    const double dy1 = p[3] - p[5], dy2 = p[7] - p[5], dy3 = p[1] - p[3] + p[5] - p[7];
    const double determinant = dx1 * dy2 - dx2 * dy1;
    const double g = (dx3 * dy2 - dx2 * dy3) / determinant;
    const double h = (dx1 * dy3 - dx3 * dy1) / determinant;
    return {p[2] - p[0] + g * p[2],
            p[6] - p[0] + h * p[6],
            p[0],
            p[3] - p[1] + g * p[3],
            p[7] - p[1] + h * p[7],
            p[1],
            g,
            h,
            1};
  }
  /// The inverse but for a factor.
  static Matrix adjugate(const Matrix& m) {
    return {m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
            m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
            m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
  }

  double distortion_;
};

}  // namespace

extern const OpRecord perspective_augmentation = {
    .name = "perspective",
    .help = "drawn as seen from another side (RandomPerspective)",
    .version = 1,
    .params = {{.name = "distortion",
                .kind = "float",
                .default_value = "0.5",
                .help = "how far corners move at most, 1 being the middle",
                .low = 0,
                .high = 0.99},
               interpolation_parameter(),
               fill_parameter(),
               probability("0.5")},
    .build = build_op<Perspective>};

}  // namespace dlpipe::augment
