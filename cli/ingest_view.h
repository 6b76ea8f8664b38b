// What `ingest` and `join` show: the progress line, and what came out as tables or JSON. Main thread.
#pragma once

#include <functional>
#include <string_view>

#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::cli {

using IngestWork =
    std::function<Result<ingest::IngestReport>(const std::function<void(const ingest::IngestProgress&)>&,
                                               const std::function<void(const std::string& warning)>&)>;

/// Does `work` under a progress line that begins with `verb`, and prints its warnings and its report.
Status show_ingest(std::string_view verb, bool json, const IngestWork& work);

}  // namespace dlpipe::cli
