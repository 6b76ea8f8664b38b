#include "run/input/box_target.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dlpipe::run {

using engine::Tensor;

std::span<const BoxObject> BoxObjects::of(int64_t sample) const {
  const auto i = static_cast<size_t>(sample);
  return std::span(all).subspan(static_cast<size_t>(offsets.at(i)),
                                static_cast<size_t>(offsets.at(i + 1) - offsets.at(i)));
}

BoxObjects BoxObjects::part(int64_t first, int64_t count) const {
  BoxObjects part;
  for (int64_t sample = first; sample < first + count; ++sample) {
    const std::span<const BoxObject> own = of(sample);
    part.all.insert(part.all.end(), own.begin(), own.end());
    part.offsets.push_back(static_cast<int64_t>(part.all.size()));
  }
  return part;
}

namespace {

constexpr double kReach = 1.5;  // strides from an object's middle to those of its cells

/// The cells of one image, from its objects.
class ImageCells {
 public:
  /// `rows` and `weight` are the image's own, zeros and the sample's weight.
  ImageCells(const BoxGrid& grid, int64_t classes, float* rows, float* weight)
      : grid_(grid),
        classes_(classes),
        rows_(rows),
        weight_(weight),
        areas_(static_cast<size_t>(grid.cells()), kNoObject) {}

  void add(std::span<const BoxObject> objects) {
    std::vector<const BoxObject*> without;
    for (const BoxObject& object : objects) {
      const bool can_be_learned = !object.is_crowd && object.label >= 0 && object.label < classes_ &&
                                  object.box[2] > object.box[0] && object.box[3] > object.box[1];
      if (can_be_learned && !take_middles(object)) without.push_back(&object);
    }
    for (const BoxObject* object : without) take_nearest(*object);
    for (const BoxObject& object : objects)
      if (object.is_crowd) leave_out(object);
  }

 private:
  static constexpr double kNoObject = std::numeric_limits<double>::infinity();

  static double area(const BoxObject& object) {
    return (static_cast<double>(object.box[2]) - object.box[0]) *
           (static_cast<double>(object.box[3]) - object.box[1]);
  }
  double middle(int64_t cell) const {
    return (static_cast<double>(cell) + 0.5) * static_cast<double>(grid_.stride);
  }
  /// Calls `visit(row, column)` for cells whose middles are in [left, right] x [top, bottom].
  void each_in(double left, double top, double right, double bottom, auto&& visit) const {
    const auto first = [&](double side) {
      return std::max<int64_t>(
          0, static_cast<int64_t>(std::ceil(side / static_cast<double>(grid_.stride) - 0.5)));
    };
    const auto end = [&](double side, int64_t count) {
      return std::min(count,
                      static_cast<int64_t>(std::floor(side / static_cast<double>(grid_.stride) - 0.5)) + 1);
    };
    for (int64_t row = first(top); row < end(bottom, grid_.rows()); ++row)
      for (int64_t column = first(left); column < end(right, grid_.columns()); ++column) visit(row, column);
  }

  /// Whether there are cells that it may have, even if smaller objects have them.
  bool take_middles(const BoxObject& object) {
    const double left = object.box[0], top = object.box[1], right = object.box[2], bottom = object.box[3];
    const double x = (left + right) / 2, y = (top + bottom) / 2;
    const double reach = kReach * static_cast<double>(grid_.stride);
    bool has_some = false;
    each_in(std::max(left, x - reach), std::max(top, y - reach), std::min(right, x + reach),
            std::min(bottom, y + reach), [&](int64_t row, int64_t column) {
              const bool is_near = std::abs(middle(row) - y) < reach && std::abs(middle(column) - x) < reach;
              const bool is_inside = middle(column) > left && middle(column) < right && middle(row) > top &&
                                     middle(row) < bottom;
              if (!is_near || !is_inside) return;
              has_some = true;
              take(object, row, column);
            });
    return has_some;
  }

  void take_nearest(const BoxObject& object) {
    const auto cell = [&](double low, double high, int64_t count) {
      const auto at = static_cast<int64_t>(std::floor((low + high) / 2 / static_cast<double>(grid_.stride)));
      return std::clamp<int64_t>(at, 0, count - 1);
    };
    const int64_t row = cell(object.box[1], object.box[3], grid_.rows());
    const int64_t column = cell(object.box[0], object.box[2], grid_.columns());
    if (areas_[static_cast<size_t>(row * grid_.columns() + column)] == kNoObject) take(object, row, column);
  }

  void take(const BoxObject& object, int64_t row, int64_t column) {
    const int64_t cell = row * grid_.columns() + column;
    double& before = areas_[static_cast<size_t>(cell)];
    if (area(object) >= before) return;
    before = area(object);
    float* const own = rows_ + cell * (classes_ + 4);
    std::fill_n(own, classes_, 0.0f);
    own[object.label] = 1;
    const double x = middle(column), y = middle(row), stride = static_cast<double>(grid_.stride);
    const std::array<double, 4> sides = {x - object.box[0], y - object.box[1], object.box[2] - x,
                                         object.box[3] - y};
    for (size_t side = 0; side < sides.size(); ++side)
      own[classes_ + static_cast<int64_t>(side)] = static_cast<float>(std::max(sides[side], 0.0) / stride);
  }

  /// Cells in a crowd that no single object has do not count.
  void leave_out(const BoxObject& crowd) {
    each_in(crowd.box[0], crowd.box[1], crowd.box[2], crowd.box[3], [&](int64_t row, int64_t column) {
      const int64_t cell = row * grid_.columns() + column;
      if (areas_[static_cast<size_t>(cell)] == kNoObject) weight_[cell] = 0;
    });
  }

  const BoxGrid& grid_;
  const int64_t classes_;
  float* const rows_;
  float* const weight_;
  std::vector<double> areas_;  // of each cell's object
};

}  // namespace

BoxTarget box_target(const BoxObjects& objects, std::span<const float> sample_weight, const BoxGrid& grid,
                     int64_t classes) {
  const auto samples = static_cast<int64_t>(sample_weight.size());
  const int64_t cells = grid.cells();
  BoxTarget target{Tensor::zeros({samples * cells, classes + 4}), Tensor::empty({samples * cells})};
  for (int64_t sample = 0; sample < samples; ++sample) {
    float* const weight = target.weight.data<float>() + sample * cells;
    std::fill_n(weight, cells, sample_weight[static_cast<size_t>(sample)]);
    ImageCells(grid, classes, target.rows.data<float>() + sample * cells * (classes + 4), weight)
        .add(objects.of(sample));
  }
  return target;
}

}  // namespace dlpipe::run
