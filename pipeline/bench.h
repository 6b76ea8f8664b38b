// Measures a pipeline and each of its stages separately, for `dlpipe bench pipeline` and `bench decode`.
//
// Runs in the calling thread, which acts as a trainer that needs no time. Nothing is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"

namespace dlpipe::pipeline {

/// One stage's work on one thread with nothing else going on.
struct StageRate {
  std::string name;
  double samples_per_s = 0;
  double bytes_per_s = 0;  // of the stage's output: stored bytes (prefault, reader), pixels (the others)
};

struct PipelineBench {
  int threads = 0;
  int64_t batch = 0;
  double seconds = 0;                // measured, without warm-up
  int64_t samples = 0;               // in these seconds
  double samples_per_s = 0;          // median of the windows
  double slowest_samples_per_s = 0;  // of the windows
  double fastest_samples_per_s = 0;
  std::vector<double> windows;   // samples/s of each window, in order
  double cpu_ns_per_sample = 0;  // user + system time of the whole process
  uint64_t peak_resident_bytes = 0;
  SourceStats stats;  // counters of only the measured seconds
};

/// Warms up for a fifth of `seconds` (at least until every slot was used), then measures ten windows.
/// `options.epochs` is ignored: the stream has no end.
Result<PipelineBench> bench_pipeline(const LoaderOptions& options, double seconds);

/// Each stage separately on the calling thread: plan, prefault, reader, decoder, augmenter, one after another on the same
/// planned samples, for about `seconds` in all. Empty if the dataset has no images.
Result<std::vector<StageRate>> bench_stages(const LoaderOptions& options, double seconds);

struct DecodeBench {
  StageRate full;                 // whole images
  StageRate region;               // what the augmentation's crop needs
  double mean_pixels = 0;         // of an image
  double mean_region_pixels = 0;  // of what was decoded for a crop
  double mean_bytes = 0;          // at rest
};
/// Decoding on the calling thread, pages in memory.
Result<DecodeBench> bench_decode(const LoaderOptions& options, double seconds);

}  // namespace dlpipe::pipeline
