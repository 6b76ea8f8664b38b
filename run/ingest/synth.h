// `dlpipe synth` as a function: a folder of drawn JPEGs by class, to try everything with no data of one's
// own.
//
// Ten classes of shapes (bar, crescent, disc, frame, pair, plus, ring, square, star, triangle). Place, scale,
// rotation, both colours, both textures, light and noise are drawn independently of the class, and a shape
// may be lighter or darker than its ground, so no weighted sum of pixels tells the classes apart, while a
// small convolutional net does. A picture is a pure function of (seed, class, number, size)
// and, in the rounding of a pixel now and then, of the C library's sine: what trains on them says which data it had.
//
// Threads: one call starts `jobs` threads and joins them. Memory: one picture per thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::ingest {

struct SynthOptions {
  std::string directory;    // must not exist
  int64_t per_class = 100;  // pictures of each class
  int size_min = 32;        // sides in pixels, drawn for width and height apart
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

/// Writes DIRECTORY/CLASS/NNNNN.jpg; DIRECTORY appears by one rename when all are written.
Result<SynthReport> synth(const SynthOptions& options);

/// The ten names, sorted.
const std::vector<std::string>& synth_classes();

/// One picture as JPEG bytes.
Result<std::vector<std::byte>> draw_picture(int class_index, int64_t number, const SynthOptions& options);

}  // namespace dlpipe::ingest
