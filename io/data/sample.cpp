#include "io/data/sample.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "base/threads.h"
#include "io/data/codec/coef/jpeg_coefficients.h"

namespace dlpipe::data {

static Result<std::vector<std::byte>> raw_to_png(std::span<const std::byte> image) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(image));
  const ptrdiff_t stride = ptrdiff_t{info.width} * info.channels;
  std::vector<uint8_t> pixels(static_cast<size_t>(stride) * info.height);
  const ImageView view{pixels.data(), info.width, info.height, info.channels, stride};
  DLPIPE_RETURN_IF_ERROR(ImageDecoder().decode(image, {0, 0, info.width, info.height}, view));
  return encode_png(view);
}

static DecodeLimits limits_of(int64_t max_pixels) {
  DecodeLimits limits;
  limits.max_pixels = max_pixels;
  return limits;
}

SampleReader::SampleReader(const Dataset& dataset, std::unique_ptr<Dataset::Reader> reader,
                           int64_t max_pixels)
    : dataset_(dataset),
      reader_(std::move(reader)),
      limits_(limits_of(max_pixels)),
      decoder_(limits_of(max_pixels)) {}

Result<std::unique_ptr<SampleReader>> SampleReader::open(const Dataset& dataset, int64_t max_pixels) {
  DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
  return std::unique_ptr<SampleReader>(new SampleReader(dataset, std::move(reader), max_pixels));
}

Status SampleReader::in_sample(const Status& status, int64_t number) const {
  return status.with_context(concat("[dataset] sample ", number, " of ", dataset_.directory(), ": "));
}

Status SampleReader::check_has_image(const Sample& sample) const {
  if (sample.header.layout != ImageLayout::kNone && !sample.view.image.empty()) return {};
  return Status(ErrorCode::kUnsupported,
                concat("[dataset] sample ", sample.number, " of ", dataset_.directory(), " has no image"));
}

Result<SampleReader::Sample> SampleReader::read(int64_t number) {
  Sample sample;
  sample.number = number;
  DLPIPE_ASSIGN_OR_RETURN(sample.header, dataset_.header(number));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(number));
  if (!reader_->is_intact(record, sample.header))
    return Status(
        ErrorCode::kCorrupt,
        concat("[dataset] sample ", number, " of ", dataset_.directory(), " is corrupt; `dlpipe verify ",
               shell_word(dataset_.directory()), "` lists all corrupt samples"));
  auto view = parse_record(dataset_, record);
  if (!view.ok()) return in_sample(view.status(), number);
  sample.view = *std::move(view);
  return sample;
}

Status SampleReader::decode(const Sample& sample, const ImageView& out) {
  DLPIPE_RETURN_IF_ERROR(check_has_image(sample));
  const auto decoded = [&]() -> Status {
    DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(sample.view.image));
    const bool swaps = swaps_axes(info.orientation);
    const int width = swaps ? info.height : info.width;
    const int height = swaps ? info.width : info.height;
    if (width != out.width || height != out.height)
      return Status(ErrorCode::kCorrupt, "its image's size differs from the header table");
    DLPIPE_RETURN_IF_ERROR(check_pixels(info, limits_.max_pixels));
    return decoder_.decode_oriented(sample.view.image, info, {0, 0, width, height}, out);
  }();
  return decoded.ok() ? decoded : in_sample(decoded, sample.number);
}

Result<SampleReader::File> SampleReader::file(const Sample& sample) {
  DLPIPE_RETURN_IF_ERROR(check_has_image(sample));
  const std::span<const std::byte> image = sample.view.image;
  File file;
  if (sample.header.layout == ImageLayout::kRaw) {
    DLPIPE_ASSIGN_OR_RETURN(file.bytes, raw_to_png(image));
  } else if (sample.header.layout == ImageLayout::kCoefficients) {
    DLPIPE_ASSIGN_OR_RETURN(file.bytes, coefficients_to_jpeg(image));
    DLPIPE_ASSIGN_OR_RETURN(const bool same, keeps_source_bytes(image));
    file.is_rewritten = !same;
  } else {
    file.bytes.assign(image.begin(), image.end());
  }
  return file;
}

Status decode_samples(const Dataset& dataset, const DecodeRange& range,
                      const std::function<void(const DecodedSample&)>& seen) {
  std::vector<std::unique_ptr<SampleReader>> readers;
  for (int i = 0; i < range.threads; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, SampleReader::open(dataset, range.max_pixels));
    readers.push_back(std::move(reader));
  }
  std::atomic<int64_t> next = range.begin, done = 0;
  std::atomic<bool> stop = false;
  Threads threads("decode", range.threads, [&](int thread) {
    SampleReader& reader = *readers[static_cast<size_t>(thread)];
    std::vector<uint8_t> pixels;
    for (int64_t number = next++; number < range.end && !stop; number = next++, ++done) {
      DecodedSample decoded;
      auto sample = reader.read(number);
      decoded.status = sample.status();
      decoded.sample.number = number;
      if (sample.ok()) decoded.sample = *std::move(sample);
      const RecordHeader& header = decoded.sample.header;
      if (header.layout != ImageLayout::kNone) {
        const ptrdiff_t stride = ptrdiff_t{header.width} * header.channels;
        pixels.resize(static_cast<size_t>(stride) * header.height);
        const ImageView view{pixels.data(), header.width, header.height, header.channels, stride};
        decoded.status = reader.decode(decoded.sample, view);
        if (decoded.status.ok()) decoded.image = view;
      }
      seen(decoded);
    }
  });
  DLPIPE_RETURN_IF_ERROR(threads.join([&] {
    if (range.progress) range.progress(done, range.end - range.begin);
    if (range.stop_requested && range.stop_requested()) stop = true;
  }));
  return stop ? Status(ErrorCode::kCancelled, concat("stopped after ", done.load(), " of ",
                                                     counted(range.end - range.begin, "sample")))
              : Status();
}

std::vector<size_t> loop_order(std::span<const Field> fields) {
  std::vector<size_t> order(fields.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const bool has_image =
      std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.kind == FieldKind::kImage; });
  const auto place = [&](size_t i) {
    return fields[i].kind == FieldKind::kImage ? 0 : fields[i].kind == FieldKind::kLabel ? 1 : 2;
  };
  if (has_image)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  return order;
}

Result<std::span<const std::byte>> record_without_image(const Dataset& dataset, Dataset::Reader& reader,
                                                        int64_t sample) {
  return dataset.links() ? reader.stored_record(sample) : reader.record(sample);
}

Result<RaggedField> read_ragged_field(const Dataset& dataset, std::span<const int64_t> samples,
                                      std::string_view name) {
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  const bool is_image = std::ranges::any_of(
      dataset.fields(), [&](const Field& one) { return one.name == name && one.kind == FieldKind::kImage; });
  RaggedField field;
  field.offsets.reserve(samples.size() + 1);
  field.offsets.push_back(0);
  for (const int64_t sample : samples) {
    if (sample >= 0) {
      DLPIPE_ASSIGN_OR_RETURN(
          const std::span<const std::byte> record,
          is_image ? reader->record(sample) : record_without_image(dataset, *reader, sample));
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, field_bytes(dataset, record, name));
      field.bytes.insert(field.bytes.end(), bytes.begin(), bytes.end());
    }
    field.offsets.push_back(static_cast<int64_t>(field.bytes.size()));
  }
  return field;
}

}  // namespace dlpipe::data
