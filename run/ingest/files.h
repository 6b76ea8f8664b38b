// What a kill may leave of an environment that was to be written.
#pragma once

#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::ingest {

/// LMDB begins an environment with one write of two pages. A kill in the middle of it leaves a data.mdb that is no
/// environment, and in which nothing was committed: this removes it.
Status drop_unbegun_environment(const std::string& directory);

}  // namespace dlpipe::ingest
