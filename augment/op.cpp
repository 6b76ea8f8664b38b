#include "dlpipe/augment_op.h"

#include "augment/color_kernels.h"

namespace dlpipe::augment {

namespace {

using Matrix = std::array<double, 9>;

/// The inverse, up to a positive factor.
Matrix inverse(const Matrix& m) {
  Matrix inverse = {m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
                    m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
                    m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
  const double determinant = m[0] * inverse[0] + m[1] * inverse[3] + m[2] * inverse[6];
  if (determinant < 0) {
    for (double& value : inverse) value = -value;
  }
  return inverse;
}

double weight(const Matrix& m, Place at) {
  return m[6] * at.x + m[7] * at.y + m[8];
}

Place mapped(const Matrix& m, Place at) {
  const double w = weight(m, at);
  return {(m[0] * at.x + m[1] * at.y + m[2]) / w, (m[3] * at.x + m[4] * at.y + m[5]) / w};
}

}  // namespace

Movement::Movement(const ProjectiveMap& m) : source_{m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], 1} {
  target_ = inverse(source_);
}

Movement Movement::scaled(double scale_x, double x, double scale_y, double y) {
  Movement movement;
  movement.source_ = {scale_x, 0, x, 0, scale_y, y, 0, 0, 1};
  movement.target_ = {1 / scale_x, 0, -x / scale_x, 0, 1 / scale_y, -y / scale_y, 0, 0, 1};
  return movement;
}

Place Movement::source(Place out) const {
  return free_ != nullptr ? free_->source(out) : mapped(source_, out);
}

bool Movement::keeps_axes() const {
  if (free_ != nullptr || source_[6] != 0 || source_[7] != 0 || source_[8] != 1) return false;
  const bool keeps = source_[1] == 0 && source_[3] == 0 && source_[0] != 0 && source_[4] != 0;
  const bool swaps = source_[0] == 0 && source_[4] == 0 && source_[1] != 0 && source_[3] != 0;
  return keeps || swaps;
}

void Movement::sources(std::span<double> xs, std::span<double> ys) const {
  const Matrix m = source_;
  const size_t count = xs.size();
  double* const x = xs.data();
  double* const y = ys.data();
  if (m[6] == 0 && m[7] == 0 && m[8] == 1) {  // saves the division by 1
    for (size_t i = 0; i < count; ++i) {
      const double from = x[i];
      x[i] = m[0] * from + m[1] * y[i] + m[2];
      y[i] = m[3] * from + m[4] * y[i] + m[5];
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      const Place in = mapped(m, {x[i], y[i]});
      x[i] = in.x;
      y[i] = in.y;
    }
  }
}

std::optional<Place> Movement::target(Place in) const {
  if (free_ != nullptr) return free_->target(in);
  if (!(weight(target_, in) > 0)) return std::nullopt;
  return mapped(target_, in);
}

size_t Op::scratch_bytes(const OpDraw& draw, int channels) const {
  constexpr size_t kTables = size_t{64} << 10;
  const auto bytes = [&](const Region& r) {
    return static_cast<size_t>(r.width) * static_cast<size_t>(r.height) * static_cast<size_t>(channels);
  };
  return bytes(draw.region) + bytes(draw.window) + kTables;
}

std::span<const OpRecord* const> OpRecord::built_in() {
  return augmentation_table();
}

Movement Op::movement(const OpDraw& draw) const {
  const Region& from = draw.drawn_region;
  return Movement::scaled(static_cast<double>(from.width) / draw.out.width, from.x,
                          static_cast<double>(from.height) / draw.out.height, from.y);
}

Status LookupOp::apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
                       ChainScratch&) const {
  LookupTables tables;
  for (int from = 0; from < 256; ++from) tables.of[0][static_cast<size_t>(from)] = value(draw, from);
  for (size_t c = 1; c < tables.of.size(); ++c) tables.of[c] = tables.of[0];
  look_up(tables, in, out);
  return {};
}

}  // namespace dlpipe::augment
