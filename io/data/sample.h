// Samples read one at a time, for users and tools rather than training: the whole image decoded or as a file, and fields
// without a fixed size.
//
// A SampleReader keeps scratch and belongs to one thread at a time; the Dataset must outlive it. What read() returns is in the
// map or in the reader and valid until the next call. Each record's checksum is verified before the record is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

/// The order of the fields for a training loop, as indices of `fields`: the image first, the label second, then the others in
/// the schema's order. Without an image, it is the schema's order. The layout of records and the id do not depend on it.
std::vector<size_t> loop_order(std::span<const Field> fields);

class SampleReader {
 public:
  static Result<std::unique_ptr<SampleReader>> open(const Dataset& dataset, int64_t max_pixels = 178'956'970);

  struct Sample {
    int64_t number = 0;
    RecordHeader header;  // width and height after orientation; layout kNone: there is no image
    RecordView view;
  };
  /// kMisuse past the dataset's size; kCorrupt names the sample.
  Result<Sample> read(int64_t number);
  /// Decodes the image into `out` (u8 [height, width, 1 or 3], the header's size).
  Status decode(const Sample& sample, const ImageView& out);

  struct File {
    std::vector<std::byte> bytes;
    bool is_rewritten = false;  // a JPEG with the source's pixels in different bytes
  };
  /// JPEG and PNG bytes unchanged; a JPEG rebuilt from its coefficients; a PNG for raw pixels.
  Result<File> file(const Sample& sample);

 private:
  SampleReader(const Dataset& dataset, std::unique_ptr<Dataset::Reader> reader, int64_t max_pixels);
  Status in_sample(const Status& status, int64_t number) const;
  Status check_has_image(const Sample& sample) const;

  const Dataset& dataset_;
  std::unique_ptr<Dataset::Reader> reader_;
  DecodeLimits limits_;
  ImageDecoder decoder_;
};

/// One of decode_samples(). `image` is valid during the call.
struct DecodedSample {
  SampleReader::Sample sample;
  Status status;         // why it could not be read or decoded
  ConstImageView image;  // u8, 1 or 3 channels; empty if the sample has no image or could not be decoded
};
struct DecodeRange {
  int64_t begin = 0;
  int64_t end = 0;
  int threads = 1;
  int64_t max_pixels = 178'956'970;
  std::function<bool()> stop_requested = {};                       // true: kCancelled
  std::function<void(int64_t done, int64_t total)> progress = {};  // called on the calling thread
};
/// Reads and decodes samples on several threads, which call `seen` in any order. Memory: one decoded image per thread.
Status decode_samples(const Dataset& dataset, const DecodeRange& range,
                      const std::function<void(const DecodedSample&)>& seen);

/// The record of a sample, for its fields other than the image. In a linked dataset it holds the link instead of the image, and the
/// image's file is not read, so it may be missing.
Result<std::span<const std::byte>> record_without_image(const Dataset& dataset, Dataset::Reader& reader,
                                                        int64_t sample);

/// A field without a fixed size, for some samples: the paths or texts that belong to a batch.
struct RaggedField {
  std::vector<std::byte> bytes;
  std::vector<int64_t> offsets;  // [samples + 1]: sample i is bytes [offsets[i], offsets[i + 1])
};

/// Reads the samples' records; a negative sample has no bytes. kNotFound when the dataset has no such field.
Result<RaggedField> read_ragged_field(const Dataset& dataset, std::span<const int64_t> samples,
                                      std::string_view name);

}  // namespace dlpipe::data
