// Makes the coefficient record of one picture of a linked dataset, for its cache (coefficient_cache.h).
//
// A record is kept only where its pixels are those of the file. A CacheCoder belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/coef/jpeg_coefficients.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/coefficient_cache.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/linked_records.h"

namespace dlpipe::data {

class CacheCoder {
 public:
  /// Of a linked dataset. Dataset and cache outlive this object.
  static Result<std::unique_ptr<CacheCoder>> create(const Dataset& dataset, CoefficientCache& cache,
                                                    const DecodeLimits& limits);
  /// Reads the sample's file, as readers do, and gives its record to the cache. Nothing where there is one already, or
  /// another thread makes it. An error says why the picture stays as it is: no JPEG that can be coded, a file that changes.
  Status code(int64_t sample);
  /// Bytes of scratch held between calls, but for libjpeg's.
  size_t scratch_bytes() const { return expected_.capacity() + decoded_.capacity(); }

 private:
  CacheCoder(const Dataset& dataset, CoefficientCache& cache, const DecodeLimits& limits,
             std::unique_ptr<Dataset::Reader> reader);
  Result<std::vector<std::byte>> encode(std::span<const std::byte> jpeg, const RecordHeader& header);

  const Dataset& dataset_;
  CoefficientCache& cache_;
  const DecodeLimits limits_;
  std::unique_ptr<Dataset::Reader> reader_;
  LinkedRecords linked_;
  CoefficientEncoder encoder_;
  ImageDecoder decoder_;
  std::vector<uint8_t> expected_;
  std::vector<uint8_t> decoded_;
};

}  // namespace dlpipe::data
