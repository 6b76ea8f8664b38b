// Whether the images of class folders have an annotation each, which a dataset of classes would lose. For folder.cpp. One
// thread; reads the file system.
#pragma once

#include <string>

#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::data {

/// kMisuse if nearly each image of `listing`, whose paths are below `root`, has a file of its own name with an ending of
/// annotations (.xml, .json, or .txt with YOLO's rows), next to it or in a folder parallel to its own. Looks for those of a few
/// images. `otherwise`: how to ingest the folders as classes, for the message.
Status check_no_companions(const std::string& root, const SourceOptions& options,
                           const SourceListing& listing, const std::string& otherwise);

}  // namespace dlpipe::data
