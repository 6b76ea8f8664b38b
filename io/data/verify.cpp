#include "dlpipe/io/data/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/text.h"
#include "dlpipe/base/threads.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/mask.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

namespace {

// One thread's tools.
class RecordVerifier {
 public:
  RecordVerifier(const Dataset& dataset, const VerifyOptions& options,
                 std::unique_ptr<Dataset::Reader> reader)
      : dataset_(dataset),
        options_(options),
        reader_(std::move(reader)),
        decoder_(limits_of(options)),
        masks_(limits_of(options)) {}

  /// `image`: the checksum of its image, of a record that is good.
  Status check(int64_t sample, uint64_t& image) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset_.header(sample));
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
    DLPIPE_RETURN_IF_ERROR(reader_->check_packing(sample));
    if (!reader_->is_intact(record, header))
      return Status(ErrorCode::kCorrupt, "the checksum differs: the record's bytes are damaged");
    DLPIPE_ASSIGN_OR_RETURN(const RecordView view, parse_record(dataset_, record));
    if (view.label != header.label)
      return Status(ErrorCode::kCorrupt,
                    concat("label ", view.label, " in the record, ", header.label, " in the header table"));
    if (header.label >= static_cast<int64_t>(dataset_.classes().size()) && !dataset_.classes().empty())
      return Status(ErrorCode::kCorrupt,
                    concat("label ", header.label, " of ", dataset_.classes().size(), " classes"));
    DLPIPE_RETURN_IF_ERROR(
        check_values(dataset_.fields(), view.fields, static_cast<int64_t>(dataset_.classes().size())));
    DLPIPE_RETURN_IF_ERROR(check_masks(header, view));
    if (header.layout == ImageLayout::kNone) return {};
    DLPIPE_RETURN_IF_ERROR(check_image(header, view.image));
    image = checksum64(view.image);
    return {};
  }

  /// The file that the sample's picture should lie in, where it isn't there; else "".
  std::string gone_file(int64_t sample) {
    if (!dataset_.links()) return {};
    const auto file = reader_->linked_file(sample);
    std::error_code error;
    const bool is_gone =
        file.ok() && std::filesystem::status(*file, error).type() == std::filesystem::file_type::not_found;
    return is_gone ? *file : std::string();
  }

  std::string path_of(int64_t sample) {
    const auto record = reader_->record(sample);
    if (!record.ok()) {
      const auto file = reader_->linked_file(sample);
      return file.ok() ? *file : std::string();
    }
    const auto path = field_bytes(dataset_, *record, "path");
    return path.ok() ? std::string(reinterpret_cast<const char*>(path->data()), path->size()) : std::string();
  }

 private:
  static DecodeLimits limits_of(const VerifyOptions& options) {
    DecodeLimits limits;
    limits.max_pixels = options.max_pixels;
    return limits;
  }

  Status check_masks(const RecordHeader& header, const RecordView& view) {
    for (size_t i = 0; i < view.fields.size(); ++i) {
      const Field& field = dataset_.fields()[i];
      if (field.kind != FieldKind::kMask || view.fields[i].empty()) continue;
      const auto checked = [&]() -> Status {
        DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_mask(view.fields[i]));
        if (header.layout != ImageLayout::kNone)
          DLPIPE_RETURN_IF_ERROR(check_mask_size(info, header.width, header.height));
        return options_.decode ? masks_.decode(view.fields[i]).status() : Status();
      }();
      if (!checked.ok()) return checked.with_context(concat("field '", field.name, "': "));
    }
    return {};
  }

  Status check_image(const RecordHeader& header, std::span<const std::byte> image) {
    DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(image));
    const bool swaps = swaps_axes(info.orientation);
    const int width = swaps ? info.height : info.width;
    const int height = swaps ? info.width : info.height;
    if (info.layout != header.layout || info.orientation != header.orientation || width != header.width ||
        height != header.height || info.channels != header.channels)
      return Status(ErrorCode::kCorrupt, "the image is not what the header table says");
    if (!options_.decode) return {};
    DLPIPE_RETURN_IF_ERROR(check_pixels(info, options_.max_pixels));
    const ptrdiff_t stride = ptrdiff_t{width} * info.channels;
    pixels_.resize(static_cast<size_t>(stride) * height);
    return decoder_.decode_oriented(image, info, {0, 0, width, height},
                                    {pixels_.data(), width, height, info.channels, stride});
  }

  const Dataset& dataset_;
  const VerifyOptions& options_;
  std::unique_ptr<Dataset::Reader> reader_;
  ImageDecoder decoder_;
  MaskDecoder masks_;
  std::vector<uint8_t> pixels_;
};

struct Shared {
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> done = 0;
  std::atomic<bool> stop = false;
  Mutex mutex;
  std::vector<VerifyReport::Bad> bad DLPIPE_GUARDED_BY(mutex);
};

void verify_samples(RecordVerifier& verifier, std::span<uint64_t> images, Shared& shared) {
  const auto total = static_cast<int64_t>(images.size());
  constexpr int64_t kRun = 64;
  for (int64_t begin = shared.next.fetch_add(kRun); begin < total && !shared.stop;
       begin = shared.next.fetch_add(kRun)) {
    const int64_t end = std::min(begin + kRun, total);
    for (int64_t sample = begin; sample < end; ++sample) {
      const Status status = verifier.check(sample, images[static_cast<size_t>(sample)]);
      if (status.ok()) continue;
      const MutexLock lock(shared.mutex);
      shared.bad.push_back({sample, verifier.path_of(sample), status.message(), verifier.gone_file(sample)});
    }
    shared.done += end - begin;
  }
}

Status run_threads(const Dataset& dataset, const VerifyOptions& options, std::span<uint64_t> images,
                   Shared& shared, const std::function<void(int64_t, int64_t)>& progress) {
  const int jobs = options.jobs > 0 ? options.jobs : available_threads();
  std::vector<std::unique_ptr<RecordVerifier>> verifiers;
  for (int i = 0; i < jobs; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
    verifiers.push_back(std::make_unique<RecordVerifier>(dataset, options, std::move(reader)));
  }
  Threads threads("verify", jobs, [&](int thread) {
    verify_samples(*verifiers[static_cast<size_t>(thread)], images, shared);
  });
  while (threads.running() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (progress) progress(shared.done, dataset.size());
    if (options.stop_requested && options.stop_requested()) shared.stop = true;
  }
  return threads.join();
}

}  // namespace

Result<VerifyReport> verify(const Dataset& dataset, const VerifyOptions& options,
                            const std::function<void(int64_t, int64_t)>& progress) {
  const int64_t begin_ns = now_ns();
  VerifyReport report;
  report.samples = dataset.size();
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset.header(sample));
    report.bytes += header.size_bytes;
  }
  report.id_matches = dataset.check_id().ok();
  DLPIPE_RETURN_IF_ERROR(dataset.skipped().status());
  DLPIPE_ASSIGN_OR_RETURN(report.known, dataset.known_checksums());
  Shared shared;
  report.image_checksums.resize(static_cast<size_t>(dataset.size()));
  DLPIPE_RETURN_IF_ERROR(run_threads(dataset, options, report.image_checksums, shared, progress));
  if (shared.stop)
    return Status(ErrorCode::kCancelled,
                  concat("[verify] stopped after ", shared.done.load(), " of ", dataset.size(), " samples"));
  {
    const MutexLock lock(shared.mutex);
    report.bad = std::move(shared.bad);
  }
  std::sort(report.bad.begin(), report.bad.end(),
            [](const auto& a, const auto& b) { return a.sample < b.sample; });
  report.seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  return report;
}

}  // namespace dlpipe::data
