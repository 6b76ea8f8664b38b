#include "dlpipe/io/data/cache_coder.h"

#include <cstring>
#include <utility>

#include "dlpipe/io/data/dataset_impl.h"

namespace dlpipe::data {

namespace {

// What is written in the same tick of a file system's clock as it was read has the time that it had.
constexpr int64_t kSettledNs = 100'000'000;

Status stays(const char* why) {
  return {ErrorCode::kUnsupported, why};
}

}  // namespace

Result<std::unique_ptr<CacheCoder>> CacheCoder::create(const Dataset& dataset, CoefficientCache& cache,
                                                       const DecodeLimits& limits) {
  DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
  return std::unique_ptr<CacheCoder>(new CacheCoder(dataset, cache, limits, std::move(reader)));
}

CacheCoder::CacheCoder(const Dataset& dataset, CoefficientCache& cache, const DecodeLimits& limits,
                       std::unique_ptr<Dataset::Reader> reader)
    : dataset_(dataset),
      cache_(cache),
      limits_(limits),
      reader_(std::move(reader)),
      linked_(*dataset.impl().layout, *dataset.links(), dataset.impl().late.get()),
      decoder_(limits) {}

Status CacheCoder::code(int64_t sample) {
  const RecordHeader header = dataset_.impl().row(sample);
  if (header.layout != ImageLayout::kJpeg) return stays("[cache] it is no JPEG");
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> stored, reader_->stored_record(sample));
  DLPIPE_ASSIGN_OR_RETURN(const RecordStamp before, linked_.stamp(stored));
  if (before.age_ns < kSettledNs) return stays("[cache] the file was written just now");
  if (!cache_.claim(sample)) return {};
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, linked_.record(stored, header, sample));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> jpeg, image_bytes(dataset_, record));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> coded, encode(jpeg, header));
  DLPIPE_ASSIGN_OR_RETURN(const RecordStamp after, linked_.stamp(stored));
  if (after.value != before.value) return stays("[cache] the file changed while it was read");
  cache_.append(sample, before.value, coded);
  return {};
}

// As ingest does: what decodes to other pixels is not taken.
Result<std::vector<std::byte>> CacheCoder::encode(std::span<const std::byte> jpeg,
                                                  const RecordHeader& header) {
  const bool swaps = swaps_axes(header.orientation);
  const int width = swaps ? header.height : header.width;
  const int height = swaps ? header.width : header.height;
  DLPIPE_RETURN_IF_ERROR(check_pixels({.width = width, .height = height}, limits_.max_pixels));
  const ptrdiff_t stride = ptrdiff_t{width} * header.channels;
  const size_t bytes = static_cast<size_t>(stride) * static_cast<size_t>(height);
  expected_.resize(bytes);
  decoded_.resize(bytes);
  const ImageView expected{expected_.data(), width, height, header.channels, stride};
  const ImageView decoded{decoded_.data(), width, height, header.channels, stride};
  DLPIPE_RETURN_IF_ERROR(encoder_.read(jpeg, limits_, &expected));
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> coded, encoder_.encode(jpeg, kFastTiles));
  DLPIPE_RETURN_IF_ERROR(decoder_.decode(coded, {0, 0, width, height}, decoded));
  if (std::memcmp(expected_.data(), decoded_.data(), bytes) != 0)
    return stays("[cache] its coefficients give other pixels");
  return coded;
}

}  // namespace dlpipe::data
