// Who decodes a device's batches: the device, to which then only the packed coefficients under each crop
// travel (base/coef_batch.h), or the host, and why.
//
// Chosen once, by Setup::make, and immutable. Where the device decodes, stages/tile_sender.h fills a slot's
// tile memory in the place of decoder and augmenter, and stages/tile_decode.h has the device make the pixels; an
// image that isn't fit for that is decoded on the host into the same batch. Both give the same pixels.
#pragma once

#include <cstddef>
#include <string>

#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/error.h"

namespace dlpipe::pipeline {

struct Setup;

struct DeviceDecode {
  coef::CoefDecode decode = nullptr;  // null: the host decodes everything
  size_t tile_bytes = 0;              // of a slot
  size_t scratch_bytes = 0;           // on the device, for one batch
  std::string reason;  // why a device's images are decoded on the host; empty where nobody asks

  bool is_on() const { return decode != nullptr; }
};

/// For `setup`, of which everything else is known. Looks at some of the dataset's images. kMisuse: --decode
/// device was asked for and can't be; says why.
Result<DeviceDecode> choose_decode(const Setup& setup);

}  // namespace dlpipe::pipeline
