#include "dlpipe/run/ingest/synth_shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "dlpipe/base/portable_math.h"

namespace dlpipe::ingest {

namespace {

double radius(double x, double y) {
  return std::sqrt(x * x + y * y);  // which IEEE 754 rounds; a C library's hypot differs in its last bits
}
double square_radius(double x, double y) {
  return std::max(std::abs(x), std::abs(y));
}

bool in_bar(double x, double y) {
  return std::abs(x) < 0.96 && std::abs(y) < 0.24;
}
bool in_crescent(double x, double y) {
  return radius(x, y) < 0.95 && radius(x - 0.5, y) > 0.75;
}
bool in_disc(double x, double y) {
  return radius(x, y) < 0.85;
}
bool in_frame(double x, double y) {
  const double r = square_radius(x, y);
  return r > 0.42 && r < 0.72;
}
bool in_pair(double x, double y) {
  return radius(std::abs(x) - 0.58, y) < 0.38;
}
bool in_plus(double x, double y) {
  return square_radius(x, y) < 0.92 && std::min(std::abs(x), std::abs(y)) < 0.24;
}
bool in_ring(double x, double y) {
  const double r = radius(x, y);
  return r > 0.55 && r < 0.92;
}
bool in_square(double x, double y) {
  return square_radius(x, y) < 0.72;
}
// The directions of `kCount` points on a circle, the first at (1, 0).
template <size_t kCount>
const std::array<SineAndCosine, kCount>& directions() {
  static const auto all = [] {
    std::array<SineAndCosine, kCount> made{};
    for (size_t i = 0; i < kCount; ++i)
      made[i] = portable_sine_and_cosine(2 * std::numbers::pi * static_cast<double>(i) / kCount);
    return made;
  }();
  return all;
}

// Five points: the point is turned to the tip that it is nearest to, and then lies above the axis or is mirrored there.
bool in_star(double x, double y) {
  constexpr double kInner = 0.40;
  double px = -1;
  double py = 0;
  for (const auto [sine, cosine] : directions<5>()) {
    const double along = x * cosine + y * sine;
    if (along < px) continue;
    px = along;
    py = std::abs(y * cosine - x * sine);
  }
  // The edge runs from the tip (1, 0) to the notch at half a sector.
  const auto& [sine, cosine] = directions<10>()[1];
  const double nx = kInner * cosine;
  const double ny = kInner * sine;
  return (nx - 1) * py - ny * (px - 1) > 0;
}
bool in_triangle(double x, double y) {
  constexpr double kInradius = 0.47;
  return std::ranges::all_of(directions<3>(), [&](const SineAndCosine& side) {
    return x * side.cosine + y * side.sine <= kInradius;
  });
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
