// What `ingest` and `join` show: the progress line, and what came out as tables or JSON. Main thread.
#pragma once

#include "dlpipe/cli/progress_line.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::cli {

Progress ingest_progress(const ingest::IngestProgress& progress);
void print_ingest(const ingest::IngestReport& report, bool json);

}  // namespace dlpipe::cli
