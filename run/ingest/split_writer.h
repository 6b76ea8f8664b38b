// Ingests one split: its files through the workers into one LMDB environment, from its last commit on.
//
// Runs on the calling thread, which is the only one that writes; it owns the workers while it runs.
#pragma once

#include <functional>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/duplicates.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/ingest/frozen_list.h"
#include "dlpipe/run/ingest/image_worker.h"
#include "dlpipe/run/ingest/ingest.h"
#include "dlpipe/run/ingest/part.h"

namespace dlpipe::ingest {

/// What the splits of one call share.
struct IngestRun {
  const IngestOptions& options;
  const data::Source& source;
  const FrozenList& list;
  const std::function<void(const IngestProgress&)>& on_progress;
  PartNotes* part = nullptr;  // of one part; null: all entries
  WorkCounters counters{};
  data::StoredImages images{};  // of this call
  IngestProgress progress{};
  int64_t begin_ns = 0;
  int64_t work_files = 0;      // done in this call
  int64_t write_ns = 0;        // in LMDB, fsync included
  int64_t writer_wait_ns = 0;  // waiting for workers
  int64_t reported_ns = 0;     // when progress was last reported
  int64_t reported_files = 0;

  /// "read", "decode", "encode" or "write": what the others waited for.
  std::string limiting() const;
  /// Calls on_progress if the last call is long enough ago, or `now`.
  void report(bool now);
};

/// Leaves a finished environment in `directory`. Committed files are not done again.
Status write_split(IngestRun& run, const FrozenSplit& split, const std::string& directory);

}  // namespace dlpipe::ingest
