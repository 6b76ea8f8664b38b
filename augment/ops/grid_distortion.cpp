// grid_distortion(steps, limit): the columns and rows of a grid made narrower and wider at random, and the picture drawn into
// them (Albumentations' GridDistortion, normalized).
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "dlpipe/augment/noise.h"
#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

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

  // Where each column and each row comes from.
  void begin(const OpDraw& draw, std::vector<std::byte>& work) const override {
    const size_t count = size_t(draw.in.width) + size_t(draw.in.height);
    if (work.size() < count * sizeof(double)) work.resize(count * sizeof(double));
    auto* const sources = reinterpret_cast<double*>(work.data());
    const auto [columns, rows] = axes(draw);
    constexpr double kRounding = 1e-9;  // whole coordinates stay whole
    for (int i = 0; i < draw.in.width; ++i) sources[i] = columns.source(i + 0.5) + kRounding;
    for (int i = 0; i < draw.in.height; ++i) sources[draw.in.width + i] = rows.source(i + 0.5) + kRounding;
  }

  /// Of one axis: equal cells of the output come from cells that end at `ends` shares of the input.
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
    .help = "columns and rows made narrower and wider (GridDistortion)",
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
                .help = "how much narrower or wider, a share",
                .low = -0.95,
                .high = 10},
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<GridDistortion>};

}  // namespace dlpipe::augment
