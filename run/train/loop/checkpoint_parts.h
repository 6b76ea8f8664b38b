// One checkpoint written by several processes, each its part of the optimizer's state. Belongs to the training thread.
#pragma once

#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/run/record/checkpoint.h"

namespace dlpipe::run {

/// For all ranks to call: each writes `own` into the directory that rank 0 gives, or hears that there is none; other
/// ranks' `directory` isn't looked at. Answers all files, on all ranks, or an error that names the rank that could not
/// write, on all ranks too.
Result<FileDescriptions> write_optimizer_parts(engine::Collective& ranks,
                                               const Result<std::string>& directory,
                                               const std::vector<engine::NamedTensor>& own);

}  // namespace dlpipe::run
