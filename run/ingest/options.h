// Options as text: parsing names, checking values, and the canonical form that a resumed ingest is compared
// with. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

/// kMisuse names the first option that makes no sense.
Status check_options(const IngestOptions& options);
/// SRC as it was given, for messages.
std::string sources_text(const IngestOptions& options);
/// JSON of every option that changes the result (not: on_error, window, jobs, map_bytes).
std::string canonical_options(const IngestOptions& options);
/// "--quality 90, now 80" for the first difference; "" when equal.
std::string first_difference(const std::string& was, const std::string& is);

}  // namespace dlpipe::ingest
