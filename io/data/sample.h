// One sample as a person looks at it: the whole picture decoded, or as a file.
//
// A SampleReader keeps scratch and belongs to one thread at a time; the Dataset outlives it. What read() answers lies in
// the map or in the reader, until the next call. No record is believed before its checksum was compared.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

/// The order in which a loop takes the fields, as numbers of `fields`: the image first, the label second, then the others, in
/// the schema's order. Without an image it is the schema's order. How records lie doesn't depend on it, nor does the id.
std::vector<size_t> loop_order(std::span<const Field> fields);

class SampleReader {
 public:
  static Result<std::unique_ptr<SampleReader>> open(const Dataset& dataset, int64_t max_pixels = 178'956'970);

  struct Sample {
    int64_t number = 0;
    RecordHeader header;  // width and height as seen; layout kNone: there is no picture
    RecordView view;
  };
  /// kMisuse past the dataset's size; kCorrupt names the sample.
  Result<Sample> read(int64_t number);
  /// Decodes the picture into `out` (u8 [height, width, 1 or 3], the header's size).
  Status decode(const Sample& sample, const ImageView& out);

  struct File {
    std::vector<std::byte> bytes;
    bool is_rewritten = false;  // a JPEG of the source's pixels in other bytes
  };
  /// JPEG and PNG bytes as they stand; a JPEG made again of its coefficients; of raw pixels a PNG.
  Result<File> file(const Sample& sample);

 private:
  SampleReader(const Dataset& dataset, std::unique_ptr<Dataset::Reader> reader, int64_t max_pixels);
  Status in_sample(const Status& status, int64_t number) const;
  Status check_has_picture(const Sample& sample) const;

  const Dataset& dataset_;
  std::unique_ptr<Dataset::Reader> reader_;
  DecodeLimits limits_;
  ImageDecoder decoder_;
};

}  // namespace dlpipe::data
