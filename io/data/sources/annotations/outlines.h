// Outlines of objects in images, as polygons or COCO's runs of pixels, and the masks drawn from them when an image is read.
//
// Threads: keep() belongs to one thread and comes first; mask() may then be called from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::data {

/// Where one object of an image is.
struct Outline {
  size_t object = 0;     // index of its object in the image, for its class
  bool is_known = true;  // false: a box in which the object is somewhere
  /// x, y, x, y, ... in pixels of the image, or in shares of its width and height; the object is inside of any of them. In
  /// double precision, because with less, other pixels would be inside than in pycocotools.
  std::vector<std::vector<double>> polygons = {};
  /// Or: how many pixels are outside, inside, outside, ..., column by column from the left, of an image of this size.
  std::vector<uint32_t> runs = {};
  int32_t runs_width = 0;
  int32_t runs_height = 0;
};

/// Parses COCO's text of runs: groups of five bits, each run except the first three as the difference to the one before the
/// last (maskApi.c, rleFrString). kCorrupt if it is invalid.
Result<std::vector<uint32_t>> unpack_runs(std::string_view text);

/// Class numbers are 1 to this; 0 is outside of all objects, 255 is unknown.
inline constexpr size_t kMostMaskClasses = 254;

/// Class numbers [height, width]: 0 outside of all objects, class + 1 inside, 255 where objects of several classes overlap, and
/// in the boxes of those without an outline. `labels` are the classes of all objects of the image. Pixels are inside of a
/// polygon as in pycocotools. kCorrupt names an outline that can't be drawn; kUnsupported if drawing would take far longer than
/// an image of that size should.
Result<std::vector<uint8_t>> draw_mask(std::span<const Outline> outlines, std::span<const int64_t> labels,
                                       int width, int height, bool is_relative);

/// The outlines of the images of a source.
class Outlines {
 public:
  void clear() { by_reference_.clear(); }
  /// Stores the outlines of one image. Returns a reference for mask(), the same for equal outlines. An image may have no
  /// outlines: all of it is then outside of objects.
  std::string keep(std::vector<Outline> outlines);
  /// draw_mask() of the outlines stored under `reference`, as a PNG.
  Result<std::vector<std::byte>> mask(std::string_view reference, std::span<const int64_t> labels, int width,
                                      int height, bool is_relative) const;

 private:
  std::unordered_map<std::string, std::vector<Outline>> by_reference_;
};

}  // namespace dlpipe::data
