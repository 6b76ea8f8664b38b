#include "dlpipe/run/ingest/synth_shapes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dlpipe::ingest {

namespace {

double square_radius(double x, double y) {
  return std::max(std::abs(x), std::abs(y));
}

bool in_bar(double x, double y) {
  return std::abs(x) < 0.96 && std::abs(y) < 0.24;
}
bool in_crescent(double x, double y) {
  return std::hypot(x, y) < 0.95 && std::hypot(x - 0.5, y) > 0.75;
}
bool in_disc(double x, double y) {
  return std::hypot(x, y) < 0.85;
}
bool in_frame(double x, double y) {
  const double r = square_radius(x, y);
  return r > 0.42 && r < 0.72;
}
bool in_pair(double x, double y) {
  return std::hypot(std::abs(x) - 0.58, y) < 0.38;
}
bool in_plus(double x, double y) {
  return square_radius(x, y) < 0.92 && std::min(std::abs(x), std::abs(y)) < 0.24;
}
bool in_ring(double x, double y) {
  const double r = std::hypot(x, y);
  return r > 0.55 && r < 0.92;
}
bool in_square(double x, double y) {
  return square_radius(x, y) < 0.72;
}
// Five points: the distance to the edge of the sector that the point's angle falls into.
bool in_star(double x, double y) {
  constexpr double kSector = 2 * std::numbers::pi / 5;
  constexpr double kInner = 0.40;
  double angle = std::fmod(std::atan2(y, x) + 2 * std::numbers::pi, kSector);
  if (angle > kSector / 2) angle = kSector - angle;
  const double r = std::hypot(x, y);
  const double px = r * std::cos(angle);
  const double py = r * std::sin(angle);
  // The edge runs from the tip (1, 0) to the notch at half a sector.
  const double nx = kInner * std::cos(kSector / 2);
  const double ny = kInner * std::sin(kSector / 2);
  return (nx - 1) * py - ny * (px - 1) > 0;
}
bool in_triangle(double x, double y) {
  constexpr double kInradius = 0.47;
  for (int side = 0; side < 3; ++side) {
    const double angle = side * 2 * std::numbers::pi / 3;
    if (x * std::cos(angle) + y * std::sin(angle) > kInradius) return false;
  }
  return true;
}

}  // namespace

const std::vector<SynthShape>& synth_shapes() {
  static const std::vector<SynthShape> shapes = {
      {"bar", in_bar},   {"crescent", in_crescent}, {"disc", in_disc}, {"frame", in_frame},
      {"pair", in_pair}, {"plus", in_plus},         {"ring", in_ring}, {"square", in_square},
      {"star", in_star}, {"triangle", in_triangle}};
  return shapes;
}

}  // namespace dlpipe::ingest
