// Ingests one split: passes its files through the workers into one LMDB environment, starting after its last commit.
//
// Runs on the calling thread, which is the only writer and owns the workers while it runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "dlpipe/source.h"
#include "io/data/verify.h"
#include "run/ingest/frozen_list.h"
#include "run/ingest/image_worker.h"
#include "run/ingest/join.h"

namespace dlpipe::ingest {

/// What the splits of one call have in common.
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

  /// "read", "decode", "encode" or "write": the bottleneck.
  std::string limiting() const;
  /// Whether to search for near copies in other splits or folds: only if all images are in this ingest and are decoded.
  bool looks() const {
    const bool decodes_all = options.store != Store::kLink || (!options.trust && !options.late_checksums);
    return (list.splits.size() > 1 || list.fold_column()) && part == nullptr && decodes_all;
  }
  /// The entry's value of the field kFoldField, as stored; "" without such a field.
  std::string_view fold_of(const data::SourceEntry& entry) const {
    const std::optional<size_t> column = list.fold_column();
    return column && *column < entry.extra.size() ? std::string_view(entry.extra[*column])
                                                  : std::string_view();
  }
  /// Calls on_progress if enough time has passed since the last call, or if `now`.
  void report(bool now);
};

/// Writes a finished environment to `directory`. Files that are already committed are not processed again.
Status write_split(IngestRun& run, const FrozenSplit& split, const std::string& directory);

}  // namespace dlpipe::ingest
