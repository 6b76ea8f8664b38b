// What `dlpipe verify` does: every record against its checksum and its header row, the whole against the
// dataset id, and, if asked, every image decoded.
//
// One call starts `jobs` threads and joins them; `progress` is called on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

struct VerifyOptions {
  bool decode = false;
  int jobs = 0;  // 0: what the process may use
  int64_t max_pixels = 178'956'970;
  std::function<bool()> stop_requested;
};

struct VerifyReport {
  struct Bad {
    int64_t sample = 0;
    std::string path;  // "" when the record can't be parsed
    std::string reason;
    std::string gone = {};  // the linked file that isn't there; "" where that isn't what is wrong
  };
  int64_t samples = 0;
  /// Samples whose whole contents could be compared. Where checksums are late, fewer: of the others size, time and what
  /// their pictures begin with were, and from now on they are known.
  int64_t known = 0;
  uint64_t bytes = 0;    // of records
  std::vector<Bad> bad;  // by sample
  /// image_checksum (duplicates.h) of each sample; 0 where there is none, or its record is bad.
  std::vector<uint64_t> image_checksums;
  bool id_matches = true;
  double seconds = 0;
  bool ok() const { return bad.empty() && id_matches; }
};

/// An error only where nothing could be verified; damage is in the report.
Result<VerifyReport> verify(const Dataset& dataset, const VerifyOptions& options,
                            const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace dlpipe::data
