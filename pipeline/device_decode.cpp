#include "dlpipe/pipeline/device_decode.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/stages/mapped_file.h"
#include "dlpipe/pipeline/stages/tile_sender.h"

namespace dlpipe::pipeline {

namespace {

constexpr int64_t kProbed = 8;       // images that are tried
constexpr int64_t kMeasured = 4096;  // rows of the header table that sizes are taken from
// Of a batch's memory: room for so many images more than there are, so that a small batch of large ones fits.
constexpr double kSpareImages = 16;

/// Samples spread evenly over those that are used.
int64_t spread(const Setup& setup, int64_t i, int64_t of) {
  const Subset& subset = setup.sampler.options().subset;
  return subset.sample(i * subset.count() / of);
}

/// Whether one image could go; kUnsupported says why not.
class Probe {
 public:
  static Result<std::unique_ptr<Probe>> open(const Setup& setup) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, setup.dataset->reader());
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> first, reader->stored(0));
    DLPIPE_ASSIGN_OR_RETURN(auto file,
                            MappedFile::open(setup.dataset->directory() + "/data.mdb", first.data()));
    return std::make_unique<Probe>(setup, std::move(reader), std::move(file));
  }
  Probe(const Setup& setup, std::unique_ptr<data::Dataset::Reader> reader, std::unique_ptr<MappedFile> file)
      : setup_(setup), reader_(std::move(reader)), file_(std::move(file)), sender_(setup) {}

  Status look_at(int64_t sample) {
    plan_.sample = sample;
    DLPIPE_ASSIGN_OR_RETURN(plan_.header, setup_.dataset->header(sample));
    if (plan_.header.layout != data::ImageLayout::kCoefficients) {
      return Status(ErrorCode::kUnsupported,
                    concat("images are stored in layout ", data::image_layout_name(plan_.header.layout),
                           "; `dlpipe ingest SRC DST` stores JPEGs as coefficients"));
    }
    const augment::ImageSize size{plan_.header.width, plan_.header.height, setup_.image_size.channels};
    const SampleKey key{setup_.options.seed, 0, sample, 0, sample};
    DLPIPE_RETURN_IF_ERROR(setup_.chain.plan(size, key, plan_.chain));
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> stored, reader_->stored(sample));
    DLPIPE_RETURN_IF_ERROR(file_->populate(stored));
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> image,
                            data::image_bytes(*setup_.dataset, record));
    coef::CoefSample selected;
    return sender_.select(plan_, image, selected).status();
  }

 private:
  const Setup& setup_;
  std::unique_ptr<data::Dataset::Reader> reader_;
  std::unique_ptr<MappedFile> file_;
  TileSender sender_;
  SamplePlan plan_;
};

/// Why the device can't decode; empty: it can.
Result<std::string> refusal(const Setup& setup) {
  const LoaderOptions& o = setup.options;
  if (o.coef_decode == nullptr) return concat(o.device->name(), " has no kernels for it");
  if (setup.floats.has_value()) return concat("pictures are wanted as ", dtype_name(o.image_dtype));
  if (o.hash_pixels) return std::string("the pixels are hashed (--receipt pixels)");
  if (const augment::OpRecord* const join = setup.chain.find_join(); join != nullptr)
    return concat(join->name, " puts several pictures into one");
  DLPIPE_ASSIGN_OR_RETURN(const auto probe, Probe::open(setup));
  const int64_t count = std::min(kProbed, setup.sampler.options().subset.count());
  Status first;
  for (int64_t i = 0; i < count; ++i) {
    Status status = probe->look_at(spread(setup, i, count));
    if (status.ok()) return std::string();
    if (status.code() == ErrorCode::kIo) return status;
    if (first.ok()) first = std::move(status);
  }
  return first.message();
}

/// Bytes that decoding all of a picture takes on the device: samples of 4:2:0 and pixels, what the first pass
/// of the resize gives, and its weights.
double scratch_of(const data::RecordHeader& header, const augment::ImageSize& out) {
  const double width = header.width;
  const double height = header.height;
  const double between = std::max(out.width * height, out.height * width) * out.channels;
  const double weights = 4 * (2 * (width + height) + 5 * (out.width + out.height));
  return (1.5 + out.channels) * width * height + between + weights;
}

/// Room for a batch of whole pictures as they are on average; crops take about half.
Status measure(const Setup& setup, DeviceDecode& chosen) {
  const int64_t count = std::min(kMeasured, setup.sampler.options().subset.count());
  double record_bytes = 0;
  double scratch_bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, setup.dataset->header(spread(setup, i, count)));
    record_bytes += header.size_bytes;
    scratch_bytes += scratch_of(header, setup.image_size);
  }
  const auto batch = static_cast<size_t>(setup.options.batch);
  const double images = (static_cast<double>(batch) + kSpareImages) / static_cast<double>(count);
  chosen.tile_bytes = coef::coef_head_bytes(batch) + static_cast<size_t>(images * record_bytes);
  chosen.scratch_bytes = static_cast<size_t>(images * scratch_bytes);
  return {};
}

Result<DeviceDecode> choose_decode(const Setup& setup) {
  const LoaderOptions& o = setup.options;
  DeviceDecode chosen;
  const bool has_device = !o.device->is_host();
  if (o.decode == Decode::kHost || (o.decode == Decode::kAuto && (!has_device || setup.image_field < 0)))
    return chosen;
  if (!has_device) {
    chosen.reason = "there is no device; use --device cuda";
  } else if (setup.image_field < 0) {
    chosen.reason = "the dataset has no pictures";
  } else {
    DLPIPE_ASSIGN_OR_RETURN(chosen.reason, refusal(setup));
  }
  if (chosen.reason.empty()) {
    DLPIPE_RETURN_IF_ERROR(measure(setup, chosen));
    chosen.decode = o.coef_decode;
  } else if (o.decode == Decode::kDevice) {
    return misuse("loader", "--decode device is not possible: ", chosen.reason, "; or use --decode auto");
  }
  return chosen;
}

}  // namespace

Result<std::shared_ptr<const Setup>> open_setup(const LoaderOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(auto setup, Setup::make(options));
  DLPIPE_ASSIGN_OR_RETURN(setup->device_decode, choose_decode(*setup));
  return std::shared_ptr<const Setup>(std::move(setup));
}

}  // namespace dlpipe::pipeline
