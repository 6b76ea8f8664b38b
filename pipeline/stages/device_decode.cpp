#include "pipeline/stages/device_decode.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "augment/resize.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "pipeline/plan/setup.h"
#include "pipeline/stages/prefault.h"

namespace dlpipe::pipeline {

namespace {

constexpr int64_t kProbed = 8;       // images that are examined
constexpr int64_t kMeasured = 4096;  // rows of the header table that sizes are estimated from
// Extra images' worth of tile memory, so that a small batch of large images fits.
constexpr double kSpareImages = 16;

/// Sample `i` of `of` samples, which are spread evenly over the subset.
int64_t spread(const Setup& setup, int64_t i, int64_t of) {
  const Subset& subset = setup.sampler.options().subset;
  return subset.sample(i * subset.count() / of);
}

/// Whether one image could be decoded on the device; kUnsupported says why not.
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
  if (setup.floats.has_value()) return concat("images are converted to ", dtype_name(o.image_dtype));
  if (o.hash_pixels) return std::string("the pixels are hashed (--receipt pixels)");
  if (const augment::OpRecord* const join = setup.chain.find_join(); join != nullptr)
    return concat(join->name, " joins several images");
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

/// Bytes that decoding a whole image needs on the device: samples of 4:2:0 and pixels, the result of the resize's first pass,
/// and its weights.
double scratch_of(const data::RecordHeader& header, const augment::ImageSize& out) {
  const double width = header.width;
  const double height = header.height;
  const double between = std::max(out.width * height, out.height * width) * out.channels;
  const double weights = 4 * (2 * (width + height) + 5 * (out.width + out.height));
  return (1.5 + out.channels) * width * height + between + weights;
}

/// Space for a batch of whole images of average size; crops need about half.
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
    chosen.reason = "the dataset has no images";
  } else {
    DLPIPE_ASSIGN_OR_RETURN(chosen.reason, refusal(setup));
  }
  if (chosen.reason.empty()) {
    DLPIPE_RETURN_IF_ERROR(measure(setup, chosen));
    chosen.decode = o.coef_decode;
  } else if (o.decode == Decode::kDevice) {
    return misuse("loader", "--decode device is not possible: ", chosen.reason,
                  "; --decode auto decodes on the CPU instead");
  }
  return chosen;
}

}  // namespace

Result<std::shared_ptr<const Setup>> open_setup(const LoaderOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(auto setup, Setup::make(options));
  DLPIPE_ASSIGN_OR_RETURN(setup->device_decode, choose_decode(*setup));
  return std::shared_ptr<const Setup>(std::move(setup));
}

// --- the host's half

TileSender::TileSender(const Setup& setup)
    : chain_(setup.chain),
      channels_(setup.image_size.channels),
      selector_({.max_pixels = setup.options.max_pixels}) {}

Result<size_t> TileSender::select(const SamplePlan& plan, std::span<const std::byte> image,
                                  coef::CoefSample& sample) {
  const std::optional<augment::PlannedResize> planned = augment::as_resize(plan.chain);
  if (!planned) {
    return Status(ErrorCode::kUnsupported, concat("--augment \"", chain_.canonical(),
                                                  "\" does more than crop, resize and then flip an image"));
  }
  const augment::ResizeGeometry& resize = planned->geometry;
  const data::CoefCrop crop{
      plan.chain.source_region, resize.source_width, resize.source_height, resize.out_width,
      resize.out_height,        resize.window,       planned->mirror,      channels_};
  return selector_.select(image, crop, sample);
}

size_t TileSender::send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i) {
  const auto bytes = select(plan, image, sample_);
  if (!bytes.ok()) return 0;
  const std::span<std::byte> part = slot.take_tiles(sample_);
  if (part.empty()) return 0;
  selector_.copy(part);
  sample_.out = slot.pixel_offset(i);
  slot.tiles().samples[static_cast<size_t>(i)] = sample_;
  return *bytes;
}

// --- the device's half

TileDecode::TileDecode(const Setup& setup)
    : setup_(&setup),
      capacity_(static_cast<size_t>(setup.options.batch)),
      scratch_begin_((capacity_ * sizeof(int32_t) + coef::kCoefAlignment - 1) / coef::kCoefAlignment *
                     coef::kCoefAlignment) {}

Result<TileDecode> TileDecode::create(const Setup& setup) {
  TileDecode decode(setup);
  Device& device = *setup.options.device;
  const size_t bytes = decode.scratch_begin_ + setup.device_decode.scratch_bytes;
  auto memory = Buffer::allocate(device, bytes);
  if (!memory.ok()) {
    return memory.status().with_context(concat("[loader] out of memory on ", device.name(),
                                               " to decode batches: ", human_bytes(bytes),
                                               "; use a smaller --batch or --decode host: "));
  }
  decode.device_ = *std::move(memory);
  DLPIPE_ASSIGN_OR_RETURN(decode.statuses_, Buffer::allocate(device, decode.capacity_ * sizeof(int32_t),
                                                             Buffer::Memory::kPinned));
  return decode;
}

Status TileDecode::put(const coef::CoefWork& work, size_t tile_bytes, const BatchMemory& twin,
                       Stream& stream) {
  Device& device = *setup_->options.device;
  coef::CoefBatch batch;
  batch.tiles = twin.tiles();
  batch.tile_bytes = tile_bytes;
  batch.capacity = static_cast<int64_t>(capacity_);
  batch.work = work;
  batch.scratch = device_.data() + scratch_begin_;
  batch.pixels = reinterpret_cast<uint8_t*>(twin.field(setup_->image_field));
  batch.pixel_bytes = capacity_ * setup_->schema[static_cast<size_t>(setup_->image_field)].sample_bytes();
  batch.statuses = reinterpret_cast<int32_t*>(device_.data());
  setup_->device_decode.decode(batch, stream);
  return device.copy_async(statuses_.data(), device_.data(), statuses_.size_bytes(), CopyKind::kDeviceToHost,
                           stream);
}

}  // namespace dlpipe::pipeline
