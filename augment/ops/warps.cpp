// Geometric ops that read between pixels (warp.h): they rotate, move, shear or bend the image.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "augment/noise.h"
#include "augment/warp.h"

namespace dlpipe::augment {

// rotate(angle): rotates about the middle and keeps the size (PIL.Image.rotate, torchvision's RandomRotation).
namespace {

class Rotate : public ProjectiveOp {
 public:
  explicit Rotate(OpArguments& arguments) : ProjectiveOp(arguments), angle_(arguments.drawn("angle")) {}

 private:
  Status draw_warp(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(angle_.draw(rng));
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    return affine_map({.angle = -static_cast<double>(draw.values[0])}, draw.in.width * 0.5,
                      draw.in.height * 0.5);
  }

  Drawn angle_;
};

}  // namespace

extern const OpRecord rotate_augmentation = {
    .name = "rotate",
    .help = "rotate about the centre; the size is unchanged (RandomRotation)",
    .version = 1,
    .params = {{.name = "angle",
                .kind = "spread",
                .default_value = "",
                .help = "positive is counterclockwise",
                .low = -360,
                .high = 360,
                .unit = "degrees"},
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Rotate>};

// translate(x, y, unit): moves by a fraction of the width and height, or by pixels, truncated to whole pixels
// (AutoAugment's TranslateX and TranslateY; RandomAffine, which rounds, is affine).
namespace {

class Translate : public ProjectiveOp {
 public:
  explicit Translate(OpArguments& arguments)
      : ProjectiveOp(arguments),
        x_(arguments.drawn("x")),
        y_(arguments.drawn("y")),
        share_(arguments.text("unit") == "share") {
    if (share_ && (std::min(x_.low, y_.low) < -1 || std::max(x_.high, y_.high) > 1))
      arguments.refuse(
          {ErrorCode::kMisuse, "x and y are shares and must be in -1..1; write unit=pixels to give pixels"});
  }

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(std::trunc(x_.draw(rng) * (share_ ? in.width : 1))),
                   static_cast<float>(std::trunc(y_.draw(rng) * (share_ ? in.height : 1)))};
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    return {1, 0, -static_cast<double>(draw.values[0]), 0, 1, -static_cast<double>(draw.values[1]), 0, 0};
  }

  Drawn x_;
  Drawn y_;
  bool share_;  // of the width and height; else pixels
};

}  // namespace

extern const OpRecord translate_augmentation = {.name = "translate",
                                                .help = "move by whole pixels",
                                                .version = 1,
                                                .params = {{.name = "x",
                                                            .kind = "spread",
                                                            .default_value = "0",
                                                            .help = "how far; positive is to the right",
                                                            .low = -65536,
                                                            .high = 65536},
                                                           {.name = "y",
                                                            .kind = "spread",
                                                            .default_value = "0",
                                                            .help = "how far; positive is down",
                                                            .low = -65536,
                                                            .high = 65536},
                                                           {.name = "unit",
                                                            .kind = "string",
                                                            .default_value = "share",
                                                            .help = "unit of x and y",
                                                            .choices = {"share", "pixels"}},
                                                           interpolation_parameter(),
                                                           fill_parameter(),
                                                           probability()},
                                                .build = build_op<Translate>};

// shear(x, y, about): shears by angles about the middle or the top left corner (torchvision's RandomAffine with shear alone).
namespace {

class Shear : public ProjectiveOp {
 public:
  explicit Shear(OpArguments& arguments)
      : ProjectiveOp(arguments),
        x_(arguments.drawn("x")),
        y_(arguments.drawn("y")),
        middle_(arguments.text("about") == "middle") {}

 private:
  Status draw_warp(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(x_.draw(rng)), static_cast<float>(y_.draw(rng))};
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    const auto x = static_cast<double>(draw.values[0]);
    const auto y = static_cast<double>(draw.values[1]);
    const double middle = middle_ ? 0.5 : 0;
    return affine_map({.shear_x = x, .shear_y = y}, draw.in.width * middle, draw.in.height * middle);
  }

  Drawn x_;
  Drawn y_;
  bool middle_;  // else the top left corner stays
};

}  // namespace

extern const OpRecord shear_augmentation = {.name = "shear",
                                            .help = "shear about the centre",
                                            .version = 1,
                                            .params = {lean_parameter("x", "columns"),
                                                       lean_parameter("y", "rows"),
                                                       {.name = "about",
                                                        .kind = "string",
                                                        .default_value = "middle",
                                                        .help = "what stays in place",
                                                        .choices = {"middle", "corner"}},
                                                       interpolation_parameter(),
                                                       fill_parameter(),
                                                       probability()},
                                            .build = build_op<Shear>};

// affine(angle, translate_x, translate_y, scale, shear_x, shear_y): torchvision's RandomAffine. Moves are whole pixels.
namespace {

class Affine : public ProjectiveOp {
 public:
  explicit Affine(OpArguments& arguments)
      : ProjectiveOp(arguments), ranges_{arguments.drawn("angle"),       arguments.drawn("translate_x"),
                                         arguments.drawn("translate_y"), arguments.drawn("scale"),
                                         arguments.drawn("shear_x"),     arguments.drawn("shear_y")} {}

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    for (size_t i = 0; i < ranges_.size(); ++i) draw.values[i] = static_cast<float>(ranges_[i].draw(rng));
    draw.values[1] = std::nearbyint(draw.values[1] * static_cast<float>(in.width));
    draw.values[2] = std::nearbyint(draw.values[2] * static_cast<float>(in.height));
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    const auto at = [&](size_t i) { return static_cast<double>(draw.values[i]); };
    return affine_map({at(0), at(1), at(2), at(3), at(4), at(5)}, draw.in.width * 0.5, draw.in.height * 0.5);
  }

  std::array<Drawn, 6> ranges_;
};

}  // namespace

extern const OpRecord affine_augmentation = {
    .name = "affine",
    .help = "rotate, move, scale and shear about the centre (RandomAffine)",
    .version = 1,
    .params = {{.name = "angle",
                .kind = "spread",
                .default_value = "0",
                .help = "positive is clockwise",
                .low = -360,
                .high = 360,
                .unit = "degrees"},
               {.name = "translate_x",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the width",
                .low = -1,
                .high = 1},
               {.name = "translate_y",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the height",
                .low = -1,
                .high = 1},
               {.name = "scale",
                .kind = "drawn",
                .default_value = "1",
                .help = "above 1 enlarges",
                .low = 0.01,
                .high = 100},
               lean_parameter("shear_x", "columns"),
               lean_parameter("shear_y", "rows"),
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Affine>};

// perspective(distortion): moves each corner inwards by up to distortion / 2 of the width and height, in
// whole pixels, and draws the image into the result (torchvision's RandomPerspective).
namespace {

class Perspective : public ProjectiveOp {
 public:
  explicit Perspective(OpArguments& arguments)
      : ProjectiveOp(arguments), distortion_(arguments.number("distortion")) {}

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.active = in.width > 1 && in.height > 1;  // an image of one row or column has no perspective
    // How far each corner is moved inwards, from the top left one clockwise.
    const int half_width = in.width / 2, half_height = in.height / 2;
    for (size_t i = 0; i < 8; i += 2) {
      const auto far_x = static_cast<uint32_t>(distortion_ * half_width);
      const auto far_y = static_cast<uint32_t>(distortion_ * half_height);
      draw.values[i] = static_cast<float>(rng.below(far_x + 1));
      draw.values[i + 1] = static_cast<float>(rng.below(far_y + 1));
    }
    return {};
  }

  // Maps the corners' places in the output to their places in the input: Heckbert, "Fundamentals of Texture Mapping and Image
  // Warping" (1989), 2.2.3: the square's map to each quadrilateral.
  ProjectiveMap map(const OpDraw& draw) const override {
    const double right = draw.in.width - 1;
    const double bottom = draw.in.height - 1;
    const auto at = [&](size_t i) { return static_cast<double>(draw.values[i]); };
    const std::array<double, 8> to = {at(0),         at(1),          right - at(2), at(3),
                                      right - at(4), bottom - at(5), at(6),         bottom - at(7)};
    const Matrix forward = from_square(to);
    // The inverse of the square's map to `to`, then the square stretched to the image.
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

  /// The map from (0,0), (1,0), (1,1), (0,1) to the four corners.
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
  /// The inverse up to a factor.
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
    .help = "change the perspective (RandomPerspective)",
    .version = 1,
    .params = {{.name = "distortion",
                .kind = "float",
                .default_value = "0.5",
                .help = "how far corners move at most, 1 being the centre",
                .low = 0,
                .high = 0.99},
               interpolation_parameter(),
               fill_parameter(),
               probability("0.5")},
    .build = build_op<Perspective>};

// grid_distortion(steps, limit): makes the columns and rows of a grid randomly narrower and wider, and
// stretches the image accordingly (Albumentations' GridDistortion, normalized).
namespace {

class GridDistortion : public WarpOp {
 public:
  explicit GridDistortion(OpArguments& arguments)
      : WarpOp(arguments), steps_(arguments.integer("steps")), limit_(arguments.drawn("limit")) {}
  Movement movement(const OpDraw& draw) const override {
    return Movement(std::make_shared<const Grid>(axes(draw)));
  }

 private:
  Status draw_warp(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.key = draw_key(rng);
    return {};
  }

  // The place in the input of each column and each row.
  void begin(const OpDraw& draw, std::vector<std::byte>& work) const override {
    const size_t count = size_t(draw.in.width) + size_t(draw.in.height);
    if (work.size() < count * sizeof(double)) work.resize(count * sizeof(double));
    auto* const sources = reinterpret_cast<double*>(work.data());
    const auto [columns, rows] = axes(draw);
    constexpr double kRounding = 1e-9;  // whole coordinates stay whole
    for (int i = 0; i < draw.in.width; ++i) sources[i] = columns.source(i + 0.5) + kRounding;
    for (int i = 0; i < draw.in.height; ++i) sources[draw.in.width + i] = rows.source(i + 0.5) + kRounding;
  }

  /// For one axis: the output's cells are equal, and come from cells that end at the fractions `ends` of the input.
  struct Axis {
    int size = 0;
    std::vector<double> ends;

    int steps() const { return static_cast<int>(ends.size()) - 1; }
    double source(double out) const {
      const double at = out / size * steps();
      const auto cell = static_cast<size_t>(std::clamp(static_cast<int>(at), 0, steps() - 1));
      const double within = at - static_cast<double>(cell);
      return (ends[cell] + within * (ends[cell + 1] - ends[cell])) / ends.back() * size;
    }
    double target(double in) const {
      const double at = in / size * ends.back();
      size_t cell = 0;
      while (static_cast<int>(cell) + 1 < steps() && at >= ends[cell + 1]) ++cell;
      const double within = (at - ends[cell]) / (ends[cell + 1] - ends[cell]);
      return (static_cast<double>(cell) + within) / steps() * size;
    }
  };
  struct Grid final : FreeMovement {
    explicit Grid(std::pair<Axis, Axis> axes)
        : columns(std::move(axes.first)), rows(std::move(axes.second)) {}
    Place source(Place out) const override { return {columns.source(out.x), rows.source(out.y)}; }
    Place target(Place in) const override { return {columns.target(in.x), rows.target(in.y)}; }
    Axis columns;
    Axis rows;
  };

  std::pair<Axis, Axis> axes(const OpDraw& draw) const {
    RandomStream rng(draw.key, 0);
    Axis columns = axis(draw.in.width, rng);
    return {std::move(columns), axis(draw.in.height, rng)};
  }
  Axis axis(int size, RandomStream& rng) const {
    Axis axis{size, {0}};
    for (int i = 0; i < steps_; ++i) axis.ends.push_back(axis.ends.back() + 1 + limit_.draw(rng));
    return axis;
  }

  void row(const OpDraw& draw, const std::vector<std::byte>& work, int first, int y, int count, int bits,
           int32_t* x_out, int32_t* y_out) const override {
    const auto* const sources = reinterpret_cast<const double*>(work.data());
    const int32_t source_y = fixed(sources[draw.in.width + y], bits);
    for (int i = 0; i < count; ++i) {
      x_out[i] = fixed(sources[first + i], bits);
      y_out[i] = source_y;
    }
  }

  int steps_;
  Drawn limit_;
};

}  // namespace

extern const OpRecord grid_distortion_augmentation = {
    .name = "grid_distortion",
    .help = "make columns and rows narrower and wider (GridDistortion)",
    .version = 1,
    .params = {{.name = "steps",
                .kind = "int",
                .default_value = "5",
                .help = "columns and rows of the grid",
                .low = 1,
                .high = 100},
               {.name = "limit",
                .kind = "spread",
                .default_value = "0.3",
                .help = "how much narrower or wider, as a share",
                .low = -0.95,
                .high = 10},
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<GridDistortion>};

// elastic(alpha, spacing): moves every pixel by a smooth random field. The field is a uniform cubic B-spline
// with control points `spacing` apart, which are moved by up to alpha to each side (after Simard et al.,
// "Best Practices for Convolutional Neural Networks", 2003, who smooth one random move per pixel).
namespace {

class Elastic : public WarpOp {
 public:
  explicit Elastic(OpArguments& arguments)
      : WarpOp(arguments), alpha_(arguments.drawn("alpha")), spacing_(arguments.integer("spacing")) {}

  bool narrow(const Region& needed, OpDraw& draw) const override {
    const int far = static_cast<int>(draw.values[0]) + 3;  // no pixel moves further than its control points
    const int left = std::max(needed.x - far, 0);
    const int top = std::max(needed.y - far, 0);
    draw.region = {left, top, std::min(needed.x + needed.width + far, draw.in.width) - left,
                   std::min(needed.y + needed.height + far, draw.in.height) - top};
    draw.window = needed;
    return true;
  }
  Movement movement(const OpDraw& draw) const override {
    auto field = std::make_shared<Field>();
    field->size = draw.in;
    field->spacing = spacing_;
    field->columns = columns(draw);
    fill(draw, field->moves);
    return Movement(std::shared_ptr<const FreeMovement>(std::move(field)));
  }
  size_t scratch_bytes(const OpDraw& draw, int channels) const override {
    return WarpOp::scratch_bytes(draw, channels) + moves_of(draw) * sizeof(double);
  }

 private:
  Status draw_warp(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(alpha_.draw(rng));
    draw.key = draw_key(rng);
    return {};
  }

  int columns(const OpDraw& draw) const { return draw.in.width / spacing_ + 4; }

  size_t moves_of(const OpDraw& draw) const {
    return size_t(columns(draw)) * size_t(draw.in.height / spacing_ + 4) * 2;
  }

  // [rows][columns][x, y] moves of the control points; the first one is one spacing before the image.
  void fill(const OpDraw& draw, std::vector<double>& moves) const {
    moves.resize(moves_of(draw));
    RandomStream rng(draw.key, 0);
    for (double& move : moves)
      move = static_cast<double>(draw.values[0]) * (2 * static_cast<double>(rng.uniform()) - 1);
  }
  void begin(const OpDraw& draw, std::vector<std::byte>& work) const override {
    std::vector<double> moves;
    fill(draw, moves);
    const size_t bytes = moves.size() * sizeof(double);
    if (work.size() < bytes) work.resize(bytes);
    std::memcpy(work.data(), moves.data(), bytes);
  }

  static std::array<double, 4> spline(double t) {
    const double s = 1 - t;
    return {s * s * s / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * s * s * s - 6 * s * s + 4) / 6,
            t * t * t / 6};
  }

  /// The same as `row`, but at any place.
  struct Field final : FreeMovement {
    ImageSize size;
    int spacing = 1;
    int columns = 0;
    std::vector<double> moves;

    Place move_at(Place out) const {
      const double x = std::clamp(out.x, 0.0, static_cast<double>(size.width)) / spacing;
      const double y = std::clamp(out.y, 0.0, static_cast<double>(size.height)) / spacing;
      const auto column = static_cast<int>(x);
      const auto row = static_cast<int>(y);
      const std::array<double, 4> across = spline(x - column);
      const std::array<double, 4> down = spline(y - row);
      Place move;
      for (size_t k = 0; k < 4; ++k) {
        const double* at = moves.data() + ((ptrdiff_t{row} + ptrdiff_t(k)) * columns + column) * 2;
        for (size_t i = 0; i < 4; ++i, at += 2) {
          move.x += down[k] * across[i] * at[0];
          move.y += down[k] * across[i] * at[1];
        }
      }
      return move;
    }
    Place source(Place out) const override {
      const Place move = move_at(out);
      return {out.x + move.x, out.y + move.y};
    }
    // Finds the output place with this source by iteration. It converges unless the field stretches some part to
    // twice its size. The number of iterations is fixed, so that it ends and the result is the same everywhere.
    Place target(Place in) const override {
      constexpr int kTimes = 32;
      Place out = in;
      for (int i = 0; i < kTimes; ++i) {
        const Place move = move_at(out);
        out = {in.x - move.x, in.y - move.y};
      }
      return out;
    }
  };

  void row(const OpDraw& draw, const std::vector<std::byte>& work, int first, int y, int count, int bits,
           int32_t* x_out, int32_t* y_out) const override {
    const auto* const moves = reinterpret_cast<const double*>(work.data());
    const int wide = columns(draw);
    const int band = y / spacing_;
    const std::array<double, 4> down = spline((y % spacing_ + 0.5) / spacing_);
    std::vector<double> line(size_t(wide) * 2, 0);
    for (size_t k = 0; k < 4; ++k) {
      const double* const from = moves + (ptrdiff_t{band} + static_cast<ptrdiff_t>(k)) * wide * 2;
      for (size_t i = 0; i < line.size(); ++i) line[i] += down[k] * from[i];
    }
    for (int i = 0; i < count; ++i) {
      const int x = first + i;
      const std::array<double, 4> across = spline((x % spacing_ + 0.5) / spacing_);
      const double* const at = line.data() + ptrdiff_t{x / spacing_} * 2;
      double move_x = 0, move_y = 0;
      for (size_t k = 0; k < 4; ++k) {
        move_x += across[k] * at[2 * k];
        move_y += across[k] * at[2 * k + 1];
      }
      x_out[i] = fixed(x + 0.5 + move_x, bits);
      y_out[i] = fixed(y + 0.5 + move_y, bits);
    }
  }

  Drawn alpha_;
  int spacing_;
};

}  // namespace

extern const OpRecord elastic_augmentation = {
    .name = "elastic",
    .help = "move each pixel by a smooth random field (elastic)",
    .version = 1,
    .params = {{.name = "alpha",
                .kind = "drawn",
                .default_value = "8",
                .help = "how far a pixel may move",
                .low = 0,
                .high = 1000,
                .unit = "pixels"},
               {.name = "spacing",
                .kind = "int",
                .default_value = "32",
                .help = "distance between control points; less is rougher",
                .low = 2,
                .high = 4096,
                .unit = "pixels"},
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Elastic>};

}  // namespace dlpipe::augment
