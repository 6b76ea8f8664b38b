// Images that show the same: the same pixels, or nearly the same after re-encoding, resizing, mirroring, brightening or a small
// crop.
//
// Method: an image is averaged to 32 x 32 cells of luma. Its 8 x 8 lowest DCT coefficients without the first are its look. Two
// images are alike if at most 11 of the 63 signs differ and the cosine of the coefficients, weighted by the root of their
// frequency, is at least 0.9, and their mean colours have nearly the same hue, or one is grey. (Zauner's pHash of 2010 compares
// only signs, against the median. Signs against zero have the advantage that mirroring flips a fixed set of them.)
// docs/decisions/073-alike-images.md has recall and precision.
//
// All functions are pure. Results depend neither on the machine nor on the number of threads: sums are integers, and the weights use
// only operations that IEEE 754 rounds exactly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/image.h"

namespace dlpipe::data {

struct ImageLook {
  uint64_t pixels = 0;  // a checksum of size and pixels; 0: the image was not seen
  uint64_t signs =
      0;  // of the coefficients; 0: the image is of one colour, and only its pixels can be compared
  std::array<int8_t, 63> coefficients{};  // weighted, the largest is 127 or -127
  std::array<uint8_t, 2> colour{};  // shares of red and blue in all pixels' sum, times 255; 85 and 85 is grey
};

/// 256 times the luma (ITU-R BT.601) of a pixel of 1 or 3 channels, or of sums of pixels.
template <class Value>
int64_t luma_times_256(const Value* pixel, int channels) {
  if (channels == 1) return int64_t{256} * pixel[0];
  return int64_t{77} * pixel[0] + int64_t{150} * pixel[1] + int64_t{29} * pixel[2];
}

/// `image`: 1 or 3 channels, rows without gaps. `work` only grows. Cost: 70 us for 500 x 400 pixels of 3 channels.
ImageLook look_of(const ConstImageView& image, std::vector<uint16_t>& work);

struct AlikePair {
  uint32_t first = 0;  // less than `second`
  uint32_t second = 0;
  bool same_pixels = false;
  bool mirrored = false;
};

/// Pairs of alike images, by `second`, then `first`. Of images with the same pixels, only the first is compared with others,
/// and each of the others is in a pair with it. An image is in at most 32 pairs with earlier ones. At most 2^32 images. Cost:
/// signs are looked up in four tables by 16 of their bits, so a million images take about 10^10 comparisons of 64 bits, not
/// 10^12; and at most 2 * 10^5 per image. Memory: 16 bytes per image.
std::vector<AlikePair> alike_pairs(std::span<const ImageLook> looks, int threads);

/// For each of `count` images, the smallest number in its group: images that pairs connect. -1: it is alone.
std::vector<int64_t> alike_groups(size_t count, std::span<const AlikePair> pairs);

/// How many images are alike by nature, such as digits or scans, and not copies: those in groups of more than 100, if they are
/// more than a tenth of all images; else 0.
size_t alike_by_nature(size_t count, std::span<const AlikePair> pairs);

/// An image of one of several datasets.
struct SeenImage {
  uint32_t split = 0;  // its dataset's number
  uint32_t part =
      0;  // of StoredImages: the split, or the fold of it, that copies of the image should be in, too
  int64_t sample = 0;
  uint64_t checksum = 0;  // of the bytes as stored
  ImageLook look;
};

struct AlikeImages {
  std::vector<AlikePair> pairs;  // by the images' numbers after sorting
  size_t by_nature = 0;          // alike_by_nature() of them
};

/// Sorts `images` by split and sample, independent of the order in which threads added them, and finds those that are alike.
AlikeImages alike_images(std::vector<SeenImage>& images, int threads);

/// For each of `count` images, the first one that it is a copy of, among those that are not copies themselves. -1: none.
std::vector<int64_t> copies_of(size_t count, std::span<const AlikePair> pairs);

}  // namespace dlpipe::data
