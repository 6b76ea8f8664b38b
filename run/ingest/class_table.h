// The classes of an ingest: their numbers, and errors and warnings about their names and the contents of their folders.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "run/ingest/options.h"

namespace dlpipe::ingest {

/// Changes the listing to the classes of --classes-from, if given. kMisuse for names that a dataset can't store, for classes that
/// --classes-from lacks, and for folders of images and masks. Adds other problems to `warnings`. Reads a few images if a
/// source has two folders with the same file names.
Status settle_classes(const IngestOptions& options, const data::Source& source, data::SourceListing& listing,
                      std::vector<std::string>& warnings);

}  // namespace dlpipe::ingest
