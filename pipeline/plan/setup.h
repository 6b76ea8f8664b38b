// What Loader::open found out before anything runs: options checked, dataset open, chain parsed, schema
// known.
//
// Immutable once made; every stage reads it from any thread. It outlives all stages: the loader holds it, and so does
// every slot, which a consumer may keep longer than the loader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/batch.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/plan/float_pixels.h"
#include "dlpipe/pipeline/plan/loader_options.h"
#include "dlpipe/pipeline/plan/mixing.h"
#include "dlpipe/pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

/// Who decodes a batch's images (device_decode.h).
struct DeviceDecode {
  coef::CoefDecode decode = nullptr;  // null: the host decodes everything
  size_t tile_bytes = 0;              // of a slot
  size_t scratch_bytes = 0;           // on the device, for one batch
  std::string reason;  // why a device's images are decoded on the host; empty where nobody asks

  bool is_on() const { return decode != nullptr; }
};

struct Setup {
  /// Checks every option and answers kMisuse with the option's name and what it may be. `device_decode` is the host's:
  /// open_setup() chooses (device_decode.h).
  static Result<std::shared_ptr<Setup>> make(const LoaderOptions& options);

  LoaderOptions
      options;  // defaults filled in: threads, limit, max_bad, device, slots_max; `batch` is of views
  std::shared_ptr<const data::Dataset> dataset;
  augment::Chain chain;
  /// Of a picture in a batch, as bytes.
  size_t picture_bytes() const {
    return static_cast<size_t>(image_size.width) * static_cast<size_t>(image_size.height) *
           static_cast<size_t>(image_size.channels);
  }
  /// Grains of this rank's batch, and the samples of each.
  int64_t grains() const { return options.grains > 1 ? options.grains / options.world : 1; }
  int64_t first_grain() const { return options.grains > 1 ? options.rank * grains() : 0; }
  int64_t grain_samples() const { return options.batch / grains(); }
  augment::ImageSize image_size;      // of the field "image"; channels 0: there is none
  BatchPrep prep;                     // what is left to the consumer
  std::optional<FloatPixels> floats;  // what the loader does of it, where the consumer wants numbers
  MixingOptions mixing;
  std::vector<FieldSpec> schema;
  std::vector<data::Field> fields;  // [schema] what the dataset says of each
  int image_field = -1;             // in schema
  int label_field = -1;
  Sampler sampler{SamplerOptions{}};
  std::string pipeline_id;
  bool grows_by_memory = false;  // slots_max is a large number, and memory says how many there may be
  DeviceDecode device_decode;
};

}  // namespace dlpipe::pipeline
