// elastic(alpha, spacing): every pixel moved by a smooth random field: a uniform cubic B-spline whose control points, `spacing`
// apart, are moved by up to alpha to each side (after Simard et al., "Best Practices for Convolutional Neural Networks",
// 2003, who smooth one random move per pixel).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "dlpipe/augment/noise.h"
#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

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

  // [rows][columns][x, y] moves of the control points; the first lies one spacing before the picture.
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

  /// What `row` does, at any place.
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
    // The place whose source this is, closer each time where the field stretches no part to twice its size; a fixed number
    // of times, so that it ends and is the same everywhere.
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

extern const OpRecord elastic_augmentation = {.name = "elastic",
                                              .help = "every pixel moved by a smooth random field",
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
                                                          .help = "between control points; less is rougher",
                                                          .low = 2,
                                                          .high = 4096,
                                                          .unit = "pixels"},
                                                         interpolation_parameter(),
                                                         fill_parameter(),
                                                         probability()},
                                              .build = build_op<Elastic>};

}  // namespace dlpipe::augment
