// grid_distortion(steps, limit): the columns and rows of a grid made narrower and wider at random, and the picture drawn into
// them (Albumentations' GridDistortion, normalized).
#include <cmath>

#include "dlpipe/augment/noise.h"
#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class GridDistortion : public WarpOp {
 public:
  explicit GridDistortion(OpArguments& arguments)
      : WarpOp(arguments), steps_(arguments.integer("steps")), limit_(arguments.drawn("limit")) {}

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
    RandomStream rng(draw.key, 0);
    distort(draw.in.width, rng, sources);
    distort(draw.in.height, rng, sources + draw.in.width);
  }

  void distort(int size, RandomStream& rng, double* sources) const {
    std::vector<double> ends = {0};
    for (int i = 0; i < steps_; ++i) ends.push_back(ends.back() + 1 + limit_.draw(rng));
    for (int i = 0; i < size; ++i) {
      const double at = (i + 0.5) / size * steps_;
      const auto cell = static_cast<size_t>(std::min(static_cast<int>(at), steps_ - 1));
      const double within = at - static_cast<double>(cell);
      constexpr double kRounding = 1e-9;  // whole coordinates stay whole
      const double inside = ends[cell] + within * (ends[cell + 1] - ends[cell]);
      sources[i] = inside / ends.back() * size + kRounding;
    }
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
