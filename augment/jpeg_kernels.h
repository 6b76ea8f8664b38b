// The effect of baseline JPEG on an image, without making a file. Huffman coding is lossless, so only these matter: the colour
// conversion, the halved chroma (4:2:0), the discrete cosine transform with 13-bit constants (Loeffler, Ligtenberg and
// Moschytz, 1989), the quantization (ITU-T T.81, tables K.1 and K.2) and the inverse of all of that, with triangle-filtered
// chroma. Integers throughout: libjpeg's accurate integer method, with the same pixels. Internal to augment; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/augment_op.h"
#include "dlpipe/image.h"

namespace dlpipe::augment {

/// Pixels that are coded together: chroma has one value for 2 x 2.
constexpr int kJpegUnit = 16;

/// Divisors of the coefficients, [row][column].
struct JpegDivisors {
  std::array<float, 64> luma;
  std::array<float, 64> chroma;
};
/// For quality 1..100, scaled as in libjpeg.
JpegDivisors jpeg_divisors(int quality);

/// The part of an image of size `whole` that determines the pixels of `window`.
Region jpeg_surroundings(const ImageSize& whole, const Region& window);

/// `in` holds `region` of the image, which begins at multiples of kJpegUnit and ends at one or at the image's border; `out`
/// receives `window`, which is inside `region`. One or three channels are coded; the last of 2 and 4 is unchanged. `work`
/// belongs to the thread.
void through_jpeg(const JpegDivisors& divisors, const ImageSize& whole, const Region& region,
                  const Region& window, const ConstImageView& in, const ImageView& out,
                  std::vector<std::byte>& work);

}  // namespace dlpipe::augment
