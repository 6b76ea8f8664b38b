// What a dataset contains and how fast it can be read, for `dlpipe inspect` and `dlpipe bench storage`. Pure functions of the
// dataset.
//
// inspect() reads the header table; records are read only to count class indices in fields and for kept_as_jpeg().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

struct Spread {
  int64_t min = 0;
  double mean = 0;
  int64_t max = 0;
};

struct HistogramBin {
  int64_t from = 0;  // inclusive
  int64_t to = 0;    // exclusive
  int64_t count = 0;
};

/// How often each class occurs in a field of class indices: boxes of each class, samples with each tag.
struct LabelCounts {
  std::string field;
  std::string of;               // the field of boxes that it has the classes of; "": of whole samples
  std::vector<int64_t> counts;  // by class
};

struct InspectReport {
  std::string directory;
  std::string id;
  int64_t samples = 0;
  std::vector<Field> fields;
  std::vector<std::string> classes;
  std::vector<int64_t> class_counts;      // samples whose own label is the class
  std::vector<LabelCounts> label_counts;  // of each field of class indices
  std::vector<std::pair<std::string, int64_t>>
      layouts;  // "jpeg", "restart", "coefficients", "png", "raw": how many
  uint64_t file_bytes = 0;
  int64_t records_per_value = 1;
  std::string compression;           // "none" or "zstd"
  std::optional<std::string> links;  // Dataset::links()
  Spread record_bytes;
  Spread width;  // as seen, in pixels
  Spread height;
  int64_t grey = 0;                                  // images of one channel
  int64_t rotated = 0;                               // with an EXIF orientation other than 1
  std::vector<HistogramBin> record_bytes_histogram;  // bins double in width
  std::vector<HistogramBin> longer_side_histogram;
  PixelStats pixel_stats;
  int64_t skipped = 0;  // files that ingest left out
};

/// kCorrupt if a field of class indices can't be read.
Result<InspectReport> inspect(const Dataset& dataset);

/// Why JPEGs in a dataset of restart or coefficient records were not converted, with counts: each is tried again. Empty for
/// other datasets.
Result<std::vector<std::pair<std::string, int64_t>>> kept_as_jpeg(const Dataset& dataset);
/// One JSON object with the members of the report.
std::string to_json(const InspectReport& report);

struct StorageBenchOptions {
  double seconds = 1;  // for each of the measurements
  uint64_t seed = 0;   // of the random order
};

/// Medians over rounds; `spread` is (slowest - fastest) / median of the random access rounds.
struct StorageBench {
  int64_t samples = 0;
  uint64_t file_bytes = 0;
  double header_ns = 0;         // one row, random order
  double random_record_ns = 0;  // find one record and touch its first and last byte, random order
  double random_spread = 0;
  double sequential_record_ns = 0;  // the same in order
  double checksum_bytes_per_s = 0;  // all bytes of records in order, XXH3
  double samples_per_s = 0;         // 1e9 / random_record_ns
};

/// How fast records are read: one thread, no decoding. The file is read once before anything is timed, so the disk is not part
/// of it.
Result<StorageBench> bench_storage(const Dataset& dataset, const StorageBenchOptions& options = {});

}  // namespace dlpipe::data
