// Several sources as one. For inputs.cpp.
#pragma once

#include <memory>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/inputs/inputs.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

/// Opens each input with `options`. list() fails for an input that can't be listed, but for a damaged one among
/// others, which becomes an entry that can't be read.
Result<std::unique_ptr<Source>> open_many(SourceInputs inputs, const SourceOptions& options);

}  // namespace dlpipe::data
