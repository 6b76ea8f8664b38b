// What blur_kernels.cpp makes of a part of a picture: rows that are read where they lie, and where they are mirrored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/layout.h"

namespace dlpipe::augment {

struct BlurRows {
  static constexpr size_t kPiece = 64;  // values that the loops take at once

  const uint8_t* const* rows = nullptr;  // [out.height + weights - 1], from column `first` on
  int wide = 0;                          // columns of the window and its margins; of these
  int first = 0;                         // the picture has [first, last)
  int last = 0;
  int left = 0;   // the first column's place in the picture
  int width = 0;  // the picture's
  int channels = 0;

  /// Of a row, without what is mirrored.
  size_t values() const { return static_cast<size_t>(last - first) * static_cast<size_t>(channels); }

  /// Fills the places of a row of `wide` columns that lie beyond the picture's border.
  void fill_margins(uint16_t* row) const {
    const auto fill = [&](int x) {
      const ptrdiff_t from = ptrdiff_t{reflected(left + x, width) - left} * channels;
      for (int c = 0; c < channels; ++c) row[ptrdiff_t{x} * channels + c] = row[from + c];
    };
    for (int x = 0; x < first; ++x) fill(x);
    for (int x = last; x < wide; ++x) fill(x);
  }
};

struct BlurMemory {
  const uint8_t** rows;  // [high]
  uint16_t* row;         // sums down, or what they give, with margins
  uint16_t* down;        // sums down, without

  BlurMemory(const BlurRows& in, size_t high, Layout& layout) {
    const size_t values = static_cast<size_t>(in.wide) * static_cast<size_t>(in.channels) + BlurRows::kPiece;
    rows = layout.take<const uint8_t*>(high);
    row = layout.take<uint16_t>(values);
    down = layout.take<uint16_t>(values);
  }
};

}  // namespace dlpipe::augment
