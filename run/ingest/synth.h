// `dlpipe synth` as a function: a folder of drawn JPEGs by class, to try dlpipe without data.
//
// Ten classes of shapes (bar, crescent, disc, frame, pair, plus, ring, square, star, triangle). Place, scale, rotation, both
// colours, both textures, light and noise are drawn independently of the class, and a shape may be lighter or darker than its
// ground. So a weighted sum of pixels can't separate the classes, but a small convolutional network can. An image is a pure
// function of (seed, class, number, size).
//
// Threads: one call starts `jobs` threads and joins them. Memory: one image per thread.
//
// For a task other than classify, an image is a scene of one to three shapes of different kinds, and files describe it:
//
//   multilabel  images/NNNNN.jpg and list.csv: path,tags ("disc;ring")
//   regress     images/NNNNN.jpg and list.csv: path,x,y,size: the middle of one shape and its diameter, in pixels
//   detect      images/NNNNN.jpg and annotations.json in COCO's format
//   segment     images/NNNNN.jpg and masks/NNNNN.png: 0 for the background, 1 to 10 for the shapes
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::ingest {

struct SynthOptions {
  std::string directory;          // must not exist
  std::string task = "classify";  // multilabel, regress, detect, segment: scenes, ten times per_class
  int64_t per_class = 100;        // images of each class
  int size_min = 32;              // sides in pixels; width and height are drawn separately
  int size_max = 32;
  int quality = 92;  // of the JPEGs
  uint64_t seed = 0;
  int jobs = 0;  // 0: what the process may use
};

struct SynthReport {
  std::vector<std::string> classes;
  int64_t files = 0;
  uint64_t bytes = 0;
};

/// Writes DIRECTORY/CLASS/NNNNN.jpg, or the files of the task. DIRECTORY appears by one rename when all files are written.
Result<SynthReport> synth(const SynthOptions& options);

/// The ten names, sorted.
const std::vector<std::string>& synth_classes();

/// The tasks besides classify: "multilabel", ...
std::span<const char* const> synth_scene_tasks();

/// One image as JPEG bytes.
Result<std::vector<std::byte>> draw_image(int class_index, int64_t number, const SynthOptions& options);

// The ten shapes that synth draws, as tests of points in the plane: each fits the unit circle, unrotated.

struct SynthShape {
  const char* name;
  bool (*contains)(double x, double y);
};

/// Sorted by name.
const std::vector<SynthShape>& synth_shapes();

}  // namespace dlpipe::ingest
