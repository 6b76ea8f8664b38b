// What `dlpipe inspect` shows: a dataset's description and the spread of its sizes, from the header table. Records are read
// where a field holds class indices, for their counts, and for kept_as_jpeg. Pure functions of the dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

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

/// How often each class stands in a field of class indices: boxes of each class, samples with each tag.
struct LabelCounts {
  std::string field;
  std::string of;               // the field of boxes that it says the classes of; "": of whole samples
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
  int64_t grey = 0;                                  // pictures of one channel
  int64_t rotated = 0;                               // with an EXIF orientation other than 1
  std::vector<HistogramBin> record_bytes_histogram;  // bins double in width
  std::vector<HistogramBin> longer_side_histogram;
  PixelStats pixel_stats;
  int64_t skipped = 0;  // files that ingest left out
};

/// kCorrupt where a field of class indices can't be read.
Result<InspectReport> inspect(const Dataset& dataset);

/// Why JPEGs of a dataset of restart or coefficient records stayed as they were, with how many: each is tried
/// again. Empty for other datasets.
Result<std::vector<std::pair<std::string, int64_t>>> kept_as_jpeg(const Dataset& dataset);
/// One JSON object with the members of the report.
std::string to_json(const InspectReport& report);

}  // namespace dlpipe::data
