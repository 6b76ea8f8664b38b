#include "dlpipe/pipeline/loader.h"

#include "dlpipe/pipeline/device_decode.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/stream.h"

namespace dlpipe::pipeline {

LoaderOptions validation_options(LoaderOptions options) {
  options.shuffle = false;
  options.last = LastBatch::kKeep;
  options.on_bad = OnBadRecord::kDrop;
  options.mixup = options.cutmix = 0;
  return options;
}

Result<std::unique_ptr<Loader>> Loader::open(const LoaderOptions& options) {
  try {
    DLPIPE_ASSIGN_OR_RETURN(auto setup, open_setup(options));
    return BatchStream::create(std::move(setup));
  } catch (...) {  // threads and memory that the system doesn't give
    return status_from_current_exception("loader");
  }
}

}  // namespace dlpipe::pipeline
