// What baseline JPEG leaves of a picture, without making a file: Huffman coding loses nothing, so all that counts is the
// colour conversion, the halved chroma (4:2:0), the discrete cosine transform with 13-bit constants (Loeffler, Ligtenberg and
// Moschytz, 1989), the quantization (ITU-T T.81, tables K.1 and K.2) and all of that backwards, chroma by triangles. Whole
// numbers throughout: libjpeg's accurate integer method, and the pixels that its users get. Internal to augment; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// Pixels that are coded together: chroma has one value for 2 x 2.
constexpr int kJpegUnit = 16;

/// Divisors of the coefficients, [row][column].
struct JpegDivisors {
  std::array<float, 64> luma;
  std::array<float, 64> chroma;
};
/// Of quality 1..100, scaled as libjpeg scales them.
JpegDivisors jpeg_divisors(int quality);

/// The part of a picture of size `whole` whose pixels say what becomes of those of `window`.
Region jpeg_surroundings(const ImageSize& whole, const Region& window);

/// `in` holds `region` of the picture, which begins at multiples of kJpegUnit and ends at such or at the picture's border;
/// `out` gets `window`, which lies in `region`. One or three channels are coded, of 2 and 4 the last stays as it is. `work`
/// is the thread's.
void through_jpeg(const JpegDivisors& divisors, const ImageSize& whole, const Region& region,
                  const Region& window, const ConstImageView& in, const ImageView& out,
                  std::vector<std::byte>& work);

}  // namespace dlpipe::augment
