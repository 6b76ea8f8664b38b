// Names in `dlpipe preview`'s grid: ASCII in letters of 5 x 8 pixels, any other character as '?'. Pure.
#pragma once

#include <string_view>

#include "dlpipe/augment/copy.h"
#include "dlpipe/base/image.h"

namespace dlpipe::run {

/// The pixels that a line of text is high.
inline constexpr int kTextHeight = 9;

/// Writes `text` from (x, y), its upper left corner, on a ground of `color`, black or white, whichever shows; what lies outside of
/// `image` is left out.
void draw_text(const ImageView& image, int x, int y, std::string_view text, const augment::Pixel& color);

}  // namespace dlpipe::run
