// The classes of an ingest: their numbers, and what is refused or said of their names and of what their folders hold.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "run/ingest/options.h"

namespace dlpipe::ingest {

/// Gives the listing the classes of --classes-from, if there are any. kMisuse for names that no dataset can hold, for classes that
/// --classes-from lacks, and for folders of images and masks. Doubts are added to `warnings`. Reads a few images of a source with
/// two folders of the same file names.
Status settle_classes(const IngestOptions& options, const data::Source& source, data::SourceListing& listing,
                      std::vector<std::string>& warnings);

}  // namespace dlpipe::ingest
