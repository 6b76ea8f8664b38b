// The box coding of dlpipe's own detectors (engine/models/detector.cpp): the cells of one grid. Each cell has the distances from
// its middle to the left, upper, right and lower side of its box, in strides. Outputs are logarithms of these distances.
//
// A cell has the smallest object that contains the cell's middle and whose own middle is nearer to it than 1.5 strides along each
// axis (Tian et al., 2019, with centre sampling). An object smaller than a cell may contain no cell's middle. It gets the cell
// that its middle is in, unless another object has that cell. Sides that do not reach the cell's middle get the distance 0.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "run/input/box_coding.h"

namespace dlpipe::run {

namespace {

constexpr double kReach = 1.5;  // strides from an object's middle to those of its cells
constexpr float kLeastScore = 0.05f, kMostOverlap = 0.6f;
constexpr size_t kMostCandidates = 1000, kMostBoxes = 100;
constexpr float kMostLogarithm = 8;  // as in the loss

struct BoxGrid {
  int64_t height = 0, width = 0;  // of the image, in pixels
  int64_t stride = 0;             // of a cell

  int64_t rows() const { return (height + stride - 1) / stride; }
  int64_t columns() const { return (width + stride - 1) / stride; }
  int64_t cells() const { return rows() * columns(); }
};

BoxGrid grid_of(const BoxRows& of) {
  return {of.height, of.width, of.coding.stride};
}

/// Assigns the objects of one image to its cells.
class ImageCells {
 public:
  /// `rows` and `weight` are those of the image: zeros, and the sample's weight for each cell.
  ImageCells(const BoxGrid& grid, int64_t classes, float* rows, float* weight)
      : grid_(grid),
        classes_(classes),
        rows_(rows),
        weight_(weight),
        areas_(static_cast<size_t>(grid.cells()), kNoObject) {}

  void add(std::span<const BoxObject> objects) {
    std::vector<const BoxObject*> without;
    for (const BoxObject& object : objects) {
      if (is_learned(object, classes_) && !take_middles(object)) without.push_back(&object);
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

  /// Assigns the cells that the object may have, except those of smaller objects. False if there are no such cells at all.
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

  /// Sets the weight of cells in a crowd to 0, unless they have an object.
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

/// sigmoid(x) of a logit.
float probability_of(float x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

/// The box of a cell from the logarithms of the distances to its four sides.
std::array<float, 4> box_of(const float* logarithms, const BoxGrid& grid, int64_t cell) {
  const auto stride = static_cast<float>(grid.stride);
  const int64_t row = cell / grid.columns();
  const float x = (static_cast<float>(cell % grid.columns()) + 0.5f) * stride;
  const float y = (static_cast<float>(row) + 0.5f) * stride;
  const auto distance = [&](int side) {
    return std::exp(std::clamp(logarithms[side], -kMostLogarithm, kMostLogarithm)) * stride;
  };
  const auto width = static_cast<float>(grid.width), height = static_cast<float>(grid.height);
  return {std::clamp(x - distance(0), 0.0f, width), std::clamp(y - distance(1), 0.0f, height),
          std::clamp(x + distance(2), 0.0f, width), std::clamp(y + distance(3), 0.0f, height)};
}

void assign_cells(const BoxRows& of, std::span<const BoxObject> objects, float* rows, float* weight) {
  const BoxGrid grid = grid_of(of);
  ImageCells(grid, of.classes, rows, weight).add(objects);
}

std::vector<FoundBox> find_in_cells(const BoxRows& of, std::span<const float> outputs) {
  const BoxGrid grid = grid_of(of);
  std::vector<FoundBox> candidates;
  // x > least_logit means sigmoid(x) > kLeastScore, without an exp for each class of each cell.
  const float least_logit = std::log(kLeastScore / (1 - kLeastScore));
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const float* const own = outputs.data() + cell * (of.classes + 4);
    for (int64_t label = 0; label < of.classes; ++label) {
      if (!(own[label] > least_logit) || !std::isfinite(own[label])) continue;
      const float* const sides = own + of.classes;
      if (!std::all_of(sides, sides + 4, [](float side) { return std::isfinite(side); })) continue;
      candidates.push_back({box_of(sides, grid, cell), label, probability_of(own[label])});
    }
  }
  sort_by_score(candidates);
  if (candidates.size() > kMostCandidates) candidates.resize(kMostCandidates);
  std::vector<FoundBox> boxes;
  for (const size_t i : suppress_overlaps(candidates, static_cast<double>(kMostOverlap))) {
    if (boxes.size() == kMostBoxes) break;
    boxes.push_back(candidates[i]);
  }
  return boxes;
}

}  // namespace

extern const BoxCodingRecord grid_boxes;
const BoxCodingRecord grid_boxes = {
    .name = "grid",
    .loss = "fcos",
    .others = 4,
    .more = 0,
    .rows = [](const BoxRows& of) { return grid_of(of).cells(); },
    .assign = assign_cells,
    .find = find_in_cells,
};

}  // namespace dlpipe::run
