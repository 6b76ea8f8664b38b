// Names in `dlpipe preview`'s grid, in ASCII letters of 5 x 8 pixels. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "dlpipe/augment/copy.h"
#include "dlpipe/base/image.h"

namespace dlpipe::run {

/// The pixels that a line of text is high.
inline constexpr int kTextHeight = 9;

/// A class's name in ASCII: of Latin letters with accents the letters; where it has characters of other scripts, its number stands
/// for them, as "7" for class 7.
std::string drawable_name(std::string_view name, size_t number);

/// Writes `text`, which is ASCII, from (x, y), its upper left corner, on a ground of `color`, black or white, whichever shows; what lies outside of
/// `image` is left out.
void draw_text(const ImageView& image, int x, int y, std::string_view text, const augment::Pixel& color);

}  // namespace dlpipe::run
