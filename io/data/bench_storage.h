// How fast a dataset gives its records: what `dlpipe bench storage` prints. One thread, no decoding; the file
// is read once before anything is timed, so the disk is not part of it.
#pragma once

#include <cstdint>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

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

Result<StorageBench> bench_storage(const Dataset& dataset, const StorageBenchOptions& options = {});

}  // namespace dlpipe::data
