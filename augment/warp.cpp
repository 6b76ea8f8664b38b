#include "augment/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/portable_math.h"

namespace dlpipe::augment {

namespace {

constexpr double kRadians = 3.14159265358979323846 / 180;

struct SourcePoint {
  double x;
  double y;
  double w;  // 1 for an affine map; 0 or less behind the image's horizon
};
SourcePoint source_of(const ProjectiveMap& m, double x, double y) {
  const double w = m[6] * x + m[7] * y + 1;
  return {(m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w, w};
}

/// Pillow's rounding of a map to fixed point.
int64_t rounded_fixed(double value) {
  constexpr double kFar = int64_t{1} << 40;
  return static_cast<int64_t>(std::floor(std::clamp(value * (1 << kNearestBits), -kFar, kFar) + 0.5));
}

int32_t saturated(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, int64_t{kLowestFixed}, int64_t{kHighestFixed}));
}

void fill_steps(int64_t at, int64_t step, int count, int32_t* out) {
  const int64_t last = at + (count - 1) * step;
  if (saturated(at) == at && saturated(last) == last) {  // then all between are, too
    const auto begin = static_cast<uint32_t>(at),
               by = static_cast<uint32_t>(step);  // modulo 2^32, as the result is
    for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) out[i] = static_cast<int32_t>(begin + i * by);
    return;
  }
  for (int i = 0; i < count; ++i, at += step) out[i] = saturated(at);
}

}  // namespace

Status WarpOp::apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
                     ChainScratch& scratch) const {
  begin(draw, scratch.work);
  const SampledImage image{in, draw.region, draw.in.width, draw.in.height};
  const size_t room = 2 * size_t(out.width) * sizeof(int32_t);
  if (scratch.rows.size() < room) scratch.rows.resize(room);
  auto* const x = reinterpret_cast<int32_t*>(scratch.rows.data());
  int32_t* const y = x + out.width;
  for (int i = 0; i < out.height; ++i) {
    row(draw, scratch.work, draw.window.x, draw.window.y + i, out.width, bits(), x, y);
    (nearest_ ? sample_nearest : sample_bilinear)(image, x, y, out.width, fill_.pixel(), out.row(i));
  }
  return {};
}

void ProjectiveOp::begin(const OpDraw& draw, std::vector<std::byte>& work) const {
  const ProjectiveMap m = map(draw);
  if (work.size() < sizeof m) work.resize(sizeof m);
  std::memcpy(work.data(), m.data(), sizeof m);
}

void ProjectiveOp::row(const OpDraw&, const std::vector<std::byte>& work, int first, int y, int count,
                       int bits, int32_t* x_out, int32_t* y_out) const {
  ProjectiveMap m;
  std::memcpy(m.data(), work.data(), sizeof m);
  const bool is_affine = m[6] == 0 && m[7] == 0;
  if (is_affine && bits == kNearestBits) {  // as Pillow: whole steps of fixed point
    const int64_t step_x = rounded_fixed(m[0]);
    const int64_t step_y = rounded_fixed(m[3]);
    const int64_t at_x =
        rounded_fixed(m[2] + m[0] * 0.5 + m[1] * 0.5) + y * rounded_fixed(m[1]) + first * step_x;
    const int64_t at_y =
        rounded_fixed(m[5] + m[3] * 0.5 + m[4] * 0.5) + y * rounded_fixed(m[4]) + first * step_y;
    fill_steps(at_x, step_x, count, x_out);
    fill_steps(at_y, step_y, count, y_out);
    return;
  }
  projective_row(m.data(), first, y, count, bits, x_out, y_out);
}

bool ProjectiveOp::narrow(const Region& needed, OpDraw& draw) const {
  const ProjectiveMap m = map(draw);
  double left = draw.in.width, top = draw.in.height, right = 0, bottom = 0;
  for (const int x : {needed.x, needed.x + needed.width}) {
    for (const int y : {needed.y, needed.y + needed.height}) {
      const SourcePoint from = source_of(m, x, y);
      if (!(from.w > 1e-6)) return false;
      left = std::min(left, from.x);
      top = std::min(top, from.y);
      right = std::max(right, from.x);
      bottom = std::max(bottom, from.y);
    }
  }
  constexpr double kMargin = 2;  // for interpolation between neighbours, and for rounding
  const auto inside = [](double at, int size) {
    return static_cast<int>(std::clamp(at, 0.0, static_cast<double>(size)));
  };
  const int x = std::min(inside(std::floor(left - kMargin), draw.in.width), draw.in.width - 1);
  const int y = std::min(inside(std::floor(top - kMargin), draw.in.height), draw.in.height - 1);
  const int x_end = std::max(inside(std::ceil(right + kMargin), draw.in.width), x + 1);
  const int y_end = std::max(inside(std::ceil(bottom + kMargin), draw.in.height), y + 1);
  draw.region = {x, y, x_end - x, y_end - y};
  draw.window = needed;
  return true;
}

ProjectiveMap affine_map(const AffineParameters& p, double center_x, double center_y) {
  const SineAndCosine shear_x = portable_sine_and_cosine(p.shear_x * kRadians);
  const SineAndCosine shear_y = portable_sine_and_cosine(p.shear_y * kRadians);
  const SineAndCosine turn = portable_sine_and_cosine(p.angle * kRadians);
  const SineAndCosine turn_less = portable_sine_and_cosine((p.angle - p.shear_y) * kRadians);
  const double tangent_x = shear_x.sine / shear_x.cosine;
  const double a = turn_less.cosine / shear_y.cosine;
  const double b = -turn_less.cosine * tangent_x / shear_y.cosine - turn.sine;
  const double c = turn_less.sine / shear_y.cosine;
  const double d = -turn_less.sine * tangent_x / shear_y.cosine + turn.cosine;
  // The inverse of [a b; c d], whose determinant is 1.
  ProjectiveMap m = {d / p.scale, -b / p.scale, 0, -c / p.scale, a / p.scale, 0, 0, 0};
  m[2] = m[0] * (-center_x - p.move_x) + m[1] * (-center_y - p.move_y) + center_x;
  m[5] = m[3] * (-center_x - p.move_x) + m[4] * (-center_y - p.move_y) + center_y;
  return m;
}

}  // namespace dlpipe::augment
