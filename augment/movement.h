// How an op moves what lies in a picture: where each place of its output comes from in its input, and the other way round.
// An op says it once (Op::movement); moving.h moves boxes, points and masks by it.
//
// Places are pixels of a picture; (0, 0) is the upper left corner of the upper left pixel, whose middle is (0.5, 0.5).
// Values: any thread. Only + - * / and square roots: the same bits on every machine.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

namespace dlpipe::augment {

struct Place {
  double x = 0;
  double y = 0;
};

/// x_in = (m[0] x + m[1] y + m[2]) / w, y_in = (m[3] x + m[4] y + m[5]) / w, w = m[6] x + m[7] y + 1.
using ProjectiveMap = std::array<double, 8>;

/// A movement that no matrix says.
class FreeMovement {
 public:
  virtual ~FreeMovement() = default;
  /// Where a place of the output comes from in the input, and where a place of the input goes to.
  virtual Place source(Place out) const = 0;
  virtual Place target(Place in) const = 0;
};

class Movement {
 public:
  /// Nothing moves.
  Movement() = default;
  /// From output to input.
  explicit Movement(const ProjectiveMap& source);
  explicit Movement(std::shared_ptr<const FreeMovement> free) : free_(std::move(free)) {}
  /// x_in = scale_x x_out + x, y_in = scale_y y_out + y; no scale is 0.
  static Movement scaled(double scale_x, double x, double scale_y, double y);
  static Movement shifted(double x, double y) { return scaled(1, x, 1, y); }

  bool is_none() const { return free_ == nullptr && source_ == kNone; }
  /// True when lines stay lines, so that a box's outline is moved with its corners.
  bool keeps_lines() const { return free_ == nullptr; }
  /// True when rows and columns stay straight along the axes: columns of the output come from columns of the input, or from
  /// rows where `swaps_axes`, whatever the row.
  bool keeps_axes() const;
  /// Of a movement that keeps axes.
  bool swaps_axes() const { return source_[0] == 0; }
  Place source(Place out) const;
  /// Of a movement that keeps lines, in place: `source` of each (xs[i], ys[i]), to the same bits.
  void sources(std::span<double> xs, std::span<double> ys) const;
  /// Nothing: it lies behind the horizon of a perspective.
  std::optional<Place> target(Place in) const;

 private:
  using Matrix = std::array<double, 9>;
  static constexpr Matrix kNone = {1, 0, 0, 0, 1, 0, 0, 0, 1};

  Matrix source_ = kNone;
  Matrix target_ = kNone;  // the inverse but for a positive factor
  std::shared_ptr<const FreeMovement> free_;
};

}  // namespace dlpipe::augment
