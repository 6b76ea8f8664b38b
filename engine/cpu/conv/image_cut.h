// How slices share the images of a convolution whose result doesn't depend on it. Internal to engine/cpu.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/parallel.h"

namespace dlpipe::engine::cpu {

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// Part `index` of `parts` of [0, whole), in multiples of `unit`.
inline Range part_of(int64_t whole, int64_t unit, int64_t parts, int64_t index) {
  const int64_t units = divide_up(whole, unit);
  return {std::min(whole, units * index / parts * unit), std::min(whole, units * (index + 1) / parts * unit)};
}

/// Groups of choice.images images, and choice.parts parts of each: of its positions (tiles, pixels) first, `fewest` or more in
/// each, then of its panels of channels. Parts of the channels each read all positions, so that there are no more of these than
/// threads want.
struct ImageCut {
  ImageCut(const KernelChoice& choice, int64_t images, int64_t positions, int64_t fewest, int64_t panels)
      : groups(divide_up(images, choice.images)),
        down(std::clamp<int64_t>(positions / fewest, 1, choice.parts)),
        across(std::min({choice.parts / down, panels, divide_up(engine_threads(), groups * down)})) {}

  int64_t slices() const { return groups * down * across; }
  int64_t group(int64_t slice) const { return slice / (down * across); }
  Range positions(int64_t slice, int64_t whole) const {
    return part_of(whole, 1, down, slice / across % down);
  }
  Range channels(int64_t slice, int64_t whole, int64_t panel) const {
    return part_of(whole, panel, across, slice % across);
  }

  int64_t groups, down, across;
};

}  // namespace dlpipe::engine::cpu
