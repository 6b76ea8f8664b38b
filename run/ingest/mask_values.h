// What the masks of a source look like, before they are stored.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/ingest/frozen_list.h"

namespace dlpipe::ingest {

/// A warning for each field of masks in whose first files there is nothing but 0 and 255: drawn for people to see, and 255
/// mostly means "not known". `fields` are those behind image, label and path. Reads a few masks; what can't be read is passed over.
std::vector<std::string> warnings_of_masks(const data::Source& source, const std::vector<data::Field>& fields,
                                           const std::vector<FrozenSplit>& splits);

}  // namespace dlpipe::ingest
