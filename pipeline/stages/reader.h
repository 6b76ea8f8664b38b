// The stage "reader": a record's bytes in the map, checked once per run. Nothing is copied.
//
// An object belongs to one thread (it uses that thread's transaction); the touched bits are shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/touched.h"

namespace dlpipe::pipeline {

/// Checksums computed so far in this run. A damaged record stays damaged: it is refused at every touch, so
/// that what a batch holds does not depend on what was read before it.
struct ChecksumState {
  explicit ChecksumState(int64_t samples) : checked(samples), damaged(samples) {}
  TouchedBits checked;
  TouchedBits damaged;
};

class RecordReader {
 public:
  RecordReader(data::Dataset::Reader& reader, ChecksumState& checksums)
      : reader_(reader), checksums_(checksums) {}

  /// The bytes of a prefaulted record: in the map, or for a compressed dataset in scratch until the next
  /// call. kCorrupt: the checksum or the record's form is wrong.
  Result<std::span<const std::byte>> read(const PlannedRecord& planned);

 private:
  data::Dataset::Reader& reader_;
  ChecksumState& checksums_;
};

}  // namespace dlpipe::pipeline
