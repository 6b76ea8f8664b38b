// Outlines of the objects in pictures, polygons or COCO's runs of pixels, and the masks that are drawn of them when a
// picture's turn comes.
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

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Where one object of a picture is.
struct Outline {
  size_t object = 0;     // which of its picture's objects, for its class
  bool is_known = true;  // false: a box in which the object is somewhere
  /// x, y, x, y, ... in pixels of the picture, or in shares of its width and height; the object is inside of any of them.
  /// Of double precision: with less, other pixels are inside than pycocotools finds.
  std::vector<std::vector<double>> polygons = {};
  /// Or: how many pixels are outside, inside, outside, ..., column by column from the left, of a picture of this size.
  std::vector<uint32_t> runs = {};
  int32_t runs_width = 0;
  int32_t runs_height = 0;
};

/// COCO's text of runs as numbers: groups of five bits, each run but the first three as the difference to the one before the
/// last (maskApi.c, rleFrString). kCorrupt for what is none.
Result<std::vector<uint32_t>> unpack_runs(std::string_view text);

/// Class numbers from 1 to this; 0 is outside of all objects, 255 where it isn't known.
inline constexpr size_t kMostMaskClasses = 254;

/// Class numbers [height, width]: 0 outside of all objects, class + 1 inside, 255 where objects of several classes lie over
/// each other, and in the boxes of those that aren't known better. `labels` are the classes of all objects of the picture. Which pixels are inside of a polygon is decided as
/// pycocotools decides it. kCorrupt names an outline that can't be drawn; kUnsupported where drawing them would take far longer than
/// a picture of that size does.
Result<std::vector<uint8_t>> draw_mask(std::span<const Outline> outlines, std::span<const int64_t> labels,
                                       int width, int height, bool is_relative);

/// The outlines of the pictures of a source.
class Outlines {
 public:
  void clear() { by_reference_.clear(); }
  /// Keeps those of one picture; the text under which mask() finds them, the same for the same outlines. None are kept, too:
  /// all of the picture is outside of objects then.
  std::string keep(std::vector<Outline> outlines);
  /// draw_mask() of those that were kept under `reference`, as a PNG.
  Result<std::vector<std::byte>> mask(std::string_view reference, std::span<const int64_t> labels, int width,
                                      int height, bool is_relative) const;

 private:
  std::unordered_map<std::string, std::vector<Outline>> by_reference_;
};

}  // namespace dlpipe::data
