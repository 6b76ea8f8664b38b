// The options that say how pictures are stored, which ingest and the writer share.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::python {

/// Sets what `given` names (dlpipe/storing.py); TypeError for a name that is none, and for a value of another type.
void set_storing_options(const nanobind::dict& given, ingest::IngestOptions& options);
/// Bytes as a number or as a text with its unit.
uint64_t bytes_option(const char* name, nanobind::handle value);

}  // namespace dlpipe::python
