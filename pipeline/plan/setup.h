// What Loader::open determines before anything runs: checked options, the open dataset, the parsed chain, the
// schema.
//
// Immutable once made; every stage reads it from any thread. It outlives all stages: the loader holds it, and so does
// every slot, which a consumer may keep longer than the loader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/augment.h"
#include "dlpipe/batch.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "pipeline/plan/batch_pixels.h"
#include "pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

/// Where a batch's images are decoded (stages/device_decode.h).
struct DeviceDecode {
  coef::CoefDecode decode = nullptr;  // null: the host decodes everything
  size_t tile_bytes = 0;              // of a slot
  size_t scratch_bytes = 0;           // on the device, for one batch
  std::string reason;  // why a device's images are decoded on the host; empty if not applicable

  bool is_on() const { return decode != nullptr; }
};

struct Setup {
  /// Checks every option; kMisuse has the option's name and its allowed values. `device_decode` is set to the host:
  /// open_setup() chooses (stages/device_decode.h).
  static Result<std::shared_ptr<Setup>> make(const LoaderOptions& options);

  LoaderOptions
      options;  // with defaults filled in: threads, limit, max_bad, device, slots_max; `batch` counts views
  std::shared_ptr<const data::Dataset> dataset;
  augment::Chain chain;
  /// The size of an image in a batch, in bytes.
  size_t image_bytes() const {
    return static_cast<size_t>(image_size.width) * static_cast<size_t>(image_size.height) *
           static_cast<size_t>(image_size.channels);
  }
  /// Grains of this rank's batch, and the samples of each.
  int64_t grains() const { return options.grains > 1 ? options.grains / options.world : 1; }
  int64_t first_grain() const { return options.grains > 1 ? options.rank * grains() : 0; }
  int64_t grain_samples() const { return options.batch / grains(); }
  augment::ImageSize image_size;      // of the field "image"; channels 0: there is none
  BatchPrep prep;                     // what is left to the consumer
  std::optional<FloatPixels> floats;  // the part that the loader does, if the consumer needs numbers
  MixingOptions mixing;
  std::vector<FieldSpec> schema;
  std::vector<data::Field> fields;  // [schema] the dataset's field of each
  int image_field = -1;             // in schema
  int label_field = -1;
  Sampler sampler{SamplerOptions{}};
  std::string pipeline_id;
  bool grows_by_memory = false;  // slots_max is a large number, and memory limits the number of slots
  DeviceDecode device_decode;
};

/// For all threads: plans the dataset's largest image for some keys, and returns the largest plan plus an eighth, because other
/// keys may draw larger ones. 0 if there are no images.
int64_t planned_scratch_bytes(const Setup& setup);

}  // namespace dlpipe::pipeline
