// Who decodes a device's batches: the device, to which then only the packed coefficients under each crop
// travel (base/coef_batch.h), or the host, and why.
//
// Chosen once, when a loader opens. Where the device decodes, stages/tile_sender.h fills a slot's tile memory in the
// place of decoder and augmenter, and stages/tile_decode.h has the device make the pixels; an image that isn't fit for
// that is decoded on the host into the same batch. Both give the same pixels.
#pragma once

#include <memory>

#include "dlpipe/base/error.h"
#include "dlpipe/pipeline/plan/setup.h"

namespace dlpipe::pipeline {

/// Setup::make() and its device_decode, for which some of the dataset's images are looked at. kMisuse besides: --decode
/// device was asked for and can't be; says why.
Result<std::shared_ptr<const Setup>> open_setup(const LoaderOptions& options);

}  // namespace dlpipe::pipeline
