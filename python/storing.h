// What ingest and the writer share: the options that say how pictures are stored, and what is said at the end.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::python {

/// Sets what `given` names (dlpipe/storing.py); TypeError for a name that is none, and for a value of another type.
void set_storing_options(const nanobind::dict& given, ingest::IngestOptions& options);
/// Bytes as a number or as a text with its unit.
uint64_t bytes_option(const char* name, nanobind::handle value);
/// What `--json` prints of it. Warns of files that were skipped.
nanobind::any answer_of(const ingest::IngestReport& report);

}  // namespace dlpipe::python
