// Datasets made at test time: drawn images, encoded as real JPEG, PNG or raw images and written with the
// dataset writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "dlpipe/dataset.h"

namespace dlpipe::pipeline {

struct DrawnOptions {
  int64_t count = 40;
  data::ImageLayout layout = data::ImageLayout::kJpeg;
  /// 0: many sizes, some grey, some with EXIF rotations; otherwise every image is size x size in colour.
  int size = 0;
  bool grey = false;  // every image is, and the dataset has their mean and standard deviation
  int64_t records_per_value = 1;
  bool zstd = false;
  bool unlabelled = false;    // no sample has a class: all labels are -1
  bool tensor_field = false;  // adds "meta", f32 [3]: sample, 2 * sample, -1
  /// Adds fields without a fixed size: "boxes", and of them "kinds" (labels), "scores" (numbers) and "joints" (two points
  /// each), and of the image "tags" (labels), "spots" (points) and "caption" (bytes). See drawn_objects.
  bool object_fields = false;
  /// Adds "mask", a PNG of drawn_mask; samples of which the number's last digit is 4 have none, those of `wrong_masks` one of
  /// another size.
  bool mask_field = false;
  std::set<int64_t> wrong_masks = {};
  /// Stored cut off at half their bytes, with a right checksum: the decoder finds out.
  std::set<int64_t> truncated = {};
  /// JPEGs stored without their Huffman tables, which are the standard's, and without quantisation tables.
  std::set<int64_t> without_huffman = {};
  std::set<int64_t> without_quantisation = {};
  /// Header rows that are right for the id but not for the image: twice as wide; 0 wide; four billion pixels.
  std::set<int64_t> too_wide = {};
  std::set<int64_t> no_width = {};
  std::set<int64_t> huge = {};
  /// Of a dataset of coefficients: stored as JPEGs, and in coded tiles; an image of twelve times the sides;
  /// all tiles corrupt, with a right checksum, so that only whoever decodes them finds out.
  std::set<int64_t> jpegs = {};
  std::set<int64_t> coded = {};
  std::set<int64_t> large = {};
  std::set<int64_t> damaged = {};
};

/// What a sample has in these fields; as many boxes as sample % 4, within the image.
struct DrawnObjects {
  std::vector<float> boxes, scores, joints, spots;
  std::vector<int64_t> kinds, tags;
  std::string caption;
};
DrawnObjects drawn_objects(int64_t sample, int width, int height);

/// One channel: classes 0 to 6 in blocks.
std::vector<uint8_t> drawn_mask(int64_t sample, int width, int height);

/// Writes a dataset into the (new) directory.
void write_drawn_dataset(const std::string& directory, const DrawnOptions& options = {});
/// Flips a bit in the middle of a record on disk: its checksum fails.
void flip_bit(const std::string& directory, int64_t sample);

}  // namespace dlpipe::pipeline
