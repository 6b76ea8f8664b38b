// The plan of an ingest: decides everything before anything is stored. Classes, limit, splits, order, records per value, and an
// estimate of the space.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "dlpipe/source.h"
#include "run/ingest/frozen_list.h"
#include "run/ingest/options.h"

namespace dlpipe::ingest {

/// Reads a few files of `source` for the estimate; with --dedup all of them, and reports `progress`.
Result<FrozenList> freeze(const IngestOptions& options, const data::Source& source,
                          data::SourceListing listing,
                          const std::function<void(const IngestProgress&)>& progress = {});
/// How many records of this size are packed into one LMDB value, because a large value uses whole pages of 4 KB.
int64_t records_per_value(double record_bytes);
/// kNoSpace if DST's disk has less than `needed_bytes` of free space.
Status check_free_space(const std::string& destination, uint64_t needed_bytes);

}  // namespace dlpipe::ingest
