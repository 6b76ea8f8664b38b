#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

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

}  // namespace dlpipe::augment
