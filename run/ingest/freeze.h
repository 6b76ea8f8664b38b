// Decides everything about an ingest before it stores anything: classes, limit, splits, order, records per
// value, and an estimate of the space.
#pragma once

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/ingest/frozen_list.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

/// Reads a few files of `source` for the estimate.
Result<FrozenList> freeze(const IngestOptions& options, const data::Source& source,
                          data::SourceListing listing);
/// How many records of this size go into one LMDB value: one that stands alone takes whole pages of 4 KB.
int64_t records_per_value(double record_bytes);
/// kNoSpace when the disk that will hold DST has less than the estimate and what is `written` already.
Status check_free_space(const std::string& destination, uint64_t needed_bytes);

}  // namespace dlpipe::ingest
