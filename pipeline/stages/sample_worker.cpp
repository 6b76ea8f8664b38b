#include "pipeline/stages/sample_worker.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/codec/bitmaps.h"

namespace dlpipe::pipeline {

bool is_bad_record(const Status& status) {
  return status.code() == ErrorCode::kCorrupt || status.code() == ErrorCode::kUnsupported;
}

// Records are scattered: while one is processed, this prefetches the first cache lines of the next one. It
// prefetches all lines of a small record, because processing that takes no longer.
static void fetch_ahead(std::span<const std::byte> stored) {
  constexpr size_t kLine = 64;
  constexpr size_t kSmall = 4096;
  const size_t bytes = stored.size() <= kSmall ? stored.size() : 4 * kLine;
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(stored.data() + at);
}

Result<std::unique_ptr<SampleWorker>> SampleWorker::create(const WorkerShared& shared) {
  DLPIPE_ASSIGN_OR_RETURN(auto reader, shared.setup.dataset->reader(shared.cache));
  return std::unique_ptr<SampleWorker>(new SampleWorker(shared, std::move(reader)));
}

SampleWorker::SampleWorker(const WorkerShared& shared, std::unique_ptr<data::Dataset::Reader> reader)
    : shared_(shared),
      dataset_reader_(std::move(reader)),
      prefault_(shared.setup, shared.file, *dataset_reader_, shared.counters),
      reader_(*dataset_reader_, shared.checksums),
      box_planner_(shared.setup, shared.planner, reader_),
      sender_(shared.setup.device_decode.is_on() ? std::make_unique<TileSender>(shared.setup) : nullptr),
      decoder_(shared.setup),
      fields_(shared.setup),
      clock_(shared.counters) {
  const Setup& setup = shared.setup;
  if (setup.floats.has_value() && !setup.mixing.is_on()) bytes_.resize(setup.image_bytes());
}

int64_t SampleWorker::process(Slot& slot, const Portion& portion, double expected_sample_ns) noexcept {
  on_host_ = portion.on_host;
  read_bytes_ = sent_ = sent_bytes_ = decoded_bytes_ = 0;
  clock_.begin_portion(expected_sample_ns);
  const int32_t end = portion.first + portion.count;
  for (int32_t i = portion.first; i < end && !portion.failed; ++i) {
    if (i + 1 < end) fetch_ahead(slot.plans[static_cast<size_t>(i) + 1].stored);
    Status status;
    try {
      status = do_sample(slot, i);
    } catch (...) {
      status = status_from_current_exception("loader");
    }
    if (!status.ok()) slot.fail(slot.meta.range.first + i, std::move(status));
  }
  const int64_t elapsed_ns = clock_.end_portion();
  PipelineCounters& counters = shared_.counters;
  counters[Stage::kReader].items.add(portion.count);
  counters[Stage::kReader].bytes.add(read_bytes_);
  counters.from_cache.add(dataset_reader_->from_cache() -
                          std::exchange(from_cache_, dataset_reader_->from_cache()));
  counters[Stage::kSelector].items.add(sent_);
  counters[Stage::kSelector].bytes.add(sent_bytes_);
  const int64_t decoded = portion.count - sent_;
  counters[Stage::kDecoder].items.add(decoded);
  counters[Stage::kAugmenter].items.add(decoded);
  counters[Stage::kDecoder].bytes.add(decoded_bytes_);
  if (slot.setup().image_field >= 0) {
    const auto& spec = slot.setup().schema[static_cast<size_t>(slot.setup().image_field)];
    counters[Stage::kAugmenter].bytes.add(decoded * static_cast<int64_t>(spec.sample_bytes()));
  }
  scratch_bytes_.store(
      static_cast<int64_t>(decoder_.scratch_bytes() + chain_scratch_.bytes() + fields_.scratch_bytes()),
      std::memory_order_relaxed);
  return elapsed_ns;
}

Status SampleWorker::do_sample(Slot& slot, int64_t i) {
  clock_.begin_sample();
  SamplePlan& plan = slot.plans[static_cast<size_t>(i)];
  size_t at_fault = 0;
  Status status = produce(plan, slot, i, &at_fault);
  if (status.ok()) {
    finish_sample(plan, slot, i);
    return status;
  }
  if (!is_bad_record(status)) return status;
  switch (slot.setup().options.on_bad) {
    case OnBadRecord::kSubstitute:
      return replace(slot, i, at_fault, std::move(status));
    case OnBadRecord::kDrop:
      drop(slot, i, at_fault, status);
      return {};
    case OnBadRecord::kStop:
      break;
  }
  return status.with_context(
      concat("[loader] bad sample ", plan.record(at_fault).sample, " of ", slot.setup().options.data, ": "));
}

// Reader, decoder, augmenter: one sample from the map to the slot. The image comes last, because sending it
// to the device can't be undone.
Status SampleWorker::produce(SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault) {
  const Setup& setup = slot.setup();
  DLPIPE_RETURN_IF_ERROR(box_planner_.complete(plan, at_fault));
  // An impossible header is reported after its record, so that corruption is reported first.
  bool has_bad_header = false;
  for (size_t k = 0; k < plan.records(); ++k)
    has_bad_header = has_bad_header || plan.record(k).has_bad_header;
  for (size_t k = 0; k < plan.records(); ++k) {
    *at_fault = k;
    const PlannedRecord& planned = plan.record(k);
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_.read(planned));
    read_bytes_ += planned.header.size_bytes;
    clock_.lap(Stage::kReader);
    if (setup.image_field >= 0 && planned.has_bad_header) {
      return Status(ErrorCode::kCorrupt,
                    concat("[loader] the header table is corrupt: it records sample ", planned.sample, " as ",
                           planned.header.width, "x", planned.header.height, " pixels with orientation ",
                           int{planned.header.orientation}));
    }
    if (has_bad_header) continue;  // another record has the bad header, so nothing is planned
    DLPIPE_RETURN_IF_ERROR(fields_.put(plan, k, record, slot, i));
    if (plan.chain.is_joined()) clock_.lap(Stage::kAugmenter);  // otherwise counted with the image
    if (setup.image_field >= 0 && !plan.chain.is_joined())
      DLPIPE_RETURN_IF_ERROR(produce_image(plan, record, slot, i));
  }
  if (setup.image_field >= 0 && plan.chain.is_joined())
    DLPIPE_RETURN_IF_ERROR(produce_joined(plan, slot, i, at_fault));
  clock_.lap(Stage::kAugmenter);
  return {};
}

Status SampleWorker::produce_image(const SamplePlan& plan, std::span<const std::byte> record, Slot& slot,
                                   int64_t i) {
  const Setup& setup = slot.setup();
  const ImageView out = image(slot, i);
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> image, data::image_bytes(*setup.dataset, record));
  if (sender_ != nullptr && send(plan, image, slot, i)) return {};
  DLPIPE_ASSIGN_OR_RETURN(const ConstImageView pixels, decoder_.decode(plan, plan.chain, image, out));
  decoded_bytes_ += int64_t{pixels.width} * pixels.height * pixels.channels;
  clock_.lap(Stage::kDecoder);
  if (pixels.data != out.data)  // else the decoder has already done everything
    DLPIPE_RETURN_IF_ERROR(setup.chain.apply(plan.chain, pixels, out, chain_scratch_));
  if (!bytes_.empty()) setup.floats->convert(out.data, slot.sample(setup.image_field, i));
  return {};
}

// Records are read again, because a decompressed one is valid only until the next is read.
Status SampleWorker::produce_joined(const SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault) {
  class Source : public augment::ImageSource {
   public:
    Source(SampleWorker& worker, const SamplePlan& plan, size_t* at_fault)
        : worker_(worker), plan_(plan), at_fault_(at_fault) {}
    Result<ConstImageView> pixels(size_t k, const augment::ChainPlan& chain, const ImageView& out) override {
      *at_fault_ = k;
      worker_.clock_.lap(Stage::kAugmenter);  // the previous image's
      const PlannedRecord& planned = plan_.record(k);
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, worker_.reader_.read(planned));
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> image,
                              data::image_bytes(*worker_.shared_.setup.dataset, record));
      worker_.clock_.lap(Stage::kReader);
      DLPIPE_ASSIGN_OR_RETURN(const ConstImageView pixels,
                              worker_.decoder_.decode(planned, chain, image, out));
      worker_.decoded_bytes_ += int64_t{pixels.width} * pixels.height * pixels.channels;
      worker_.clock_.lap(Stage::kDecoder);
      return pixels;
    }

   private:
    SampleWorker& worker_;
    const SamplePlan& plan_;
    size_t* at_fault_;
  };
  const Setup& setup = slot.setup();
  const ImageView out = image(slot, i);
  Source source(*this, plan, at_fault);
  DLPIPE_RETURN_IF_ERROR(setup.chain.apply_joined(plan.chain, source, out, chain_scratch_));
  if (!bytes_.empty()) setup.floats->convert(out.data, slot.sample(setup.image_field, i));
  return {};
}

ImageView SampleWorker::image(const Slot& slot, int64_t i) {
  if (bytes_.empty()) return slot.image(i);
  const augment::ImageSize& size = slot.setup().image_size;
  return {bytes_.data(), size.width, size.height, size.channels,
          static_cast<ptrdiff_t>(size.width) * size.channels};
}

bool SampleWorker::send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i) {
  if (on_host_) return false;
  const size_t bytes = sender_->send(plan, image, slot, i);
  clock_.lap(Stage::kSelector);
  if (bytes == 0) return false;
  ++sent_;
  sent_bytes_ += static_cast<int64_t>(bytes);
  return true;
}

void SampleWorker::finish_sample(const SamplePlan& plan, Slot& slot, int64_t i) {
  const auto at = static_cast<size_t>(i);
  slot.meta.weight[at] = i < slot.meta.range.repeated ? 0.0f : 1.0f;
  slot.meta.sample_ids[at] = plan.sample;
  Slot::SampleHash& hash = slot.hashes[at];
  hash = {plan.header.checksum, plan.chain.hash, 0};
  const Setup& setup = slot.setup();
  if (!setup.options.hash_pixels) return;
  if (setup.image_field >= 0) {
    const ImageView made = image(slot, i);  // dense
    hash.pixels = data::checksum64(std::as_bytes(
        std::span(made.data, static_cast<size_t>(made.height) * static_cast<size_t>(made.stride))));
  }
  for (size_t f = 0; f < setup.schema.size(); ++f) {
    if (setup.fields[f].kind == data::FieldKind::kMask)
      hash.pixels = data::checksum64({slot.sample(static_cast<int>(f), i), setup.schema[f].sample_bytes()},
                                     hash.pixels);
    if (setup.schema[f].ragged)
      hash.pixels = data::checksum64(slot.rows(static_cast<int>(f), i), hash.pixels);
  }
}

// If an image other than the sample's own is bad, the sample stays and the other images are drawn again.
Status SampleWorker::replace(Slot& slot, int64_t i, size_t at_fault, Status reason) {
  const SamplePlan& first = slot.plans[static_cast<size_t>(i)];
  bool keeps_own = at_fault > 0;
  std::vector<Substitution> bad = {
      {first.key.position, first.record(at_fault).sample, -1, 0, reason.message()}};
  std::vector<size_t> places = {at_fault};  // indices of the records in `bad`
  for (int32_t attempt = 1; attempt <= kMaxAttempts; ++attempt) {
    DLPIPE_RETURN_IF_ERROR(shared_.planner.plan_substitute(first, attempt, keeps_own, substitute_));
    size_t failed = 0;
    DLPIPE_RETURN_IF_ERROR(prefault_.touch({&substitute_, 1}, &failed));
    reason = produce(substitute_, slot, i, &at_fault);
    if (reason.ok()) {
      finish_sample(substitute_, slot, i);
      for (size_t b = 0; b < bad.size(); ++b) {
        const size_t place = std::min(places[b], substitute_.others.size());
        bad[b].used_sample = substitute_.record(place).sample;
        bad[b].attempt = attempt;
        slot.add_substitution(std::move(bad[b]));
      }
      return {};
    }
    if (!is_bad_record(reason)) return reason;
    bad.push_back({first.key.position, substitute_.record(at_fault).sample, -1, 0,
                   reason.message()});  // a bad substitute
    places.push_back(at_fault);
    keeps_own = keeps_own && at_fault > 0;
  }
  return Status(
      ErrorCode::kCorrupt,
      concat("[loader] sample ", first.sample, " of ", slot.setup().options.data, " is bad, and so are the ",
             kMaxAttempts, " substitutes drawn for it; `dlpipe verify ",
             shell_word(slot.setup().options.data), " --decode` finds all of them: ", bad.front().reason));
}

void SampleWorker::drop(Slot& slot, int64_t i, size_t at_fault, const Status& reason) {
  const auto at = static_cast<size_t>(i);
  const SamplePlan& plan = slot.plans[at];
  const Setup& setup = slot.setup();
  for (size_t f = 0; f < setup.schema.size(); ++f) {
    if (setup.schema[f].ragged) {
      slot.rows(static_cast<int>(f), i).clear();
      continue;
    }
    std::memset(slot.sample(static_cast<int>(f), i), 0, setup.schema[f].sample_bytes());
  }
  if (setup.label_field >= 0) {  // the header has it, and a report may need it
    std::memcpy(slot.sample(setup.label_field, i), &plan.header.label, sizeof plan.header.label);
  }
  slot.meta.weight[at] = 0.0f;
  slot.meta.sample_ids[at] = plan.sample;
  slot.hashes[at] = {Slot::kDropped, static_cast<uint64_t>(plan.sample), 0};
  slot.add_substitution({plan.key.position, plan.record(at_fault).sample, -1, 0, reason.message()});
}

// --- reader

Result<std::span<const std::byte>> RecordReader::read(const PlannedRecord& planned) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record,
                          reader_.record_in(planned.stored, planned.sample, planned.header.size_bytes));
  if (!checksums_.checked.test(planned.sample)) {
    if (!reader_.is_intact(record, planned.header)) checksums_.damaged.set(planned.sample);
    checksums_.checked.set(planned.sample);
  }
  if (checksums_.damaged.test(planned.sample)) {
    return Status(ErrorCode::kCorrupt,
                  concat("[loader] checksum of sample ", planned.sample,
                         " is wrong: its bytes changed since they were ingested; `dlpipe verify DATA` lists "
                         "all such samples; restore the file, or ingest again"));
  }
  return record;
}

// --- box planner

Status BoxPlanner::complete(SamplePlan& plan, size_t* at_fault) {
  if (!planner_.plans_late()) return {};
  for (size_t k = 0; k < plan.records(); ++k) {
    if (plan.record(k).has_bad_header) return {};  // it is refused when its record is read
  }
  while (objects_.size() < plan.records())
    objects_.push_back(
        std::make_unique<RecordObjects>(data::DecodeLimits{.max_pixels = setup_.options.max_pixels}));
  for (size_t k = 0; k < plan.records(); ++k) {
    *at_fault = k;
    const PlannedRecord& planned = plan.record(k);
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_.read(planned));
    const Status read =
        objects_[k]->read(*setup_.dataset, record, planned.header.width, planned.header.height, pastes_);
    if (!read.ok()) return read.with_context(concat("[loader] sample ", planned.sample, ": "));
  }
  return planner_.plan_chain(objects_, plan);
}

// --- field mover

using Kind = data::FieldKind;

FieldMover::FieldMover(const Setup& setup)
    : setup_(setup),
      boxes_of_(setup.schema.size(), -1),
      kept_(setup.schema.size()),
      masks_({.max_pixels = setup.options.max_pixels}) {
  for (const bool boxes : {true, false}) {
    for (size_t f = 0; f < setup.fields.size(); ++f) {
      const bool is_copied =
          static_cast<int>(f) != setup.image_field && static_cast<int>(f) != setup.label_field;
      if (is_copied && (setup.fields[f].kind == Kind::kBoxes) == boxes) order_.push_back(f);
    }
  }
  for (size_t f = 0; f < setup.fields.size(); ++f) {
    const Kind kind = setup.fields[f].kind;
    moves_ = moves_ || (setup.image_field >= 0 && (kind == Kind::kBoxes || kind == Kind::kPoints));
    for (size_t b = 0; b < setup.fields.size(); ++b) {
      if (!setup.fields[f].of.empty() && setup.fields[b].name == setup.fields[f].of)
        boxes_of_[f] = static_cast<int>(b);
    }
  }
}

bool FieldMover::is_gathered(size_t field) const {
  const Kind kind = setup_.fields[field].kind;
  return kind == Kind::kBoxes || kind == Kind::kPoints || kind == Kind::kMask || kind == Kind::kLabels ||
         boxes_of_[field] >= 0;
}

static augment::Moving moving_of(const SamplePlan& plan, size_t image) {
  return plan.chain.is_joined() ? augment::Moving(plan.chain, image) : augment::Moving(plan.chain);
}

Status FieldMover::put(const SamplePlan& plan, size_t image, std::span<const std::byte> record, Slot& slot,
                       int64_t i) {
  if (setup_.label_field >= 0 && image == 0)
    std::memcpy(slot.sample(setup_.label_field, i), &plan.header.label, sizeof plan.header.label);
  for (const size_t f : order_) {
    const FieldSpec& spec = setup_.schema[f];
    if (image > 0 && !is_gathered(f)) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                            data::field_bytes(*setup_.dataset, record, spec.name));
    if (spec.ragged) {
      DLPIPE_RETURN_IF_ERROR(put_ragged(f, bytes, plan, image, slot, i));
      continue;
    }
    if (setup_.fields[f].kind == Kind::kMask) {
      DLPIPE_RETURN_IF_ERROR(put_mask(f, bytes, plan, image, slot, i));
      continue;
    }
    if (bytes.size() != spec.sample_bytes()) {
      return Status(ErrorCode::kCorrupt,
                    concat("[loader] field '", spec.name, "' of sample ", plan.sample, " has ", bytes.size(),
                           " bytes instead of the ", spec.sample_bytes(), " of its schema"));
    }
    std::memcpy(slot.sample(static_cast<int>(f), i), bytes.data(), bytes.size());
  }
  return {};
}

Status FieldMover::put_mask(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan,
                            size_t image, Slot& slot, int64_t i) {
  const auto fill = static_cast<uint8_t>(setup_.options.mask_fill);
  auto* const pixels = reinterpret_cast<uint8_t*>(slot.sample(static_cast<int>(field), i));
  const augment::ImageSize& size = setup_.image_size;
  if (image == 0) std::memset(pixels, fill, setup_.schema[field].sample_bytes());
  if (bytes.empty()) return {};
  const data::RecordHeader& header = plan.record(image).header;
  const auto mask = [&]() -> Result<ConstImageView> {
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_mask(bytes));
    DLPIPE_RETURN_IF_ERROR(data::check_mask_size(info, header.width, header.height));
    return masks_.decode(bytes);
  }();
  if (!mask.ok())
    return mask.status().with_context(concat("[loader] field '", setup_.schema[field].name, "' of sample ",
                                             plan.record(image).sample, ": "));
  moving_of(plan, image).paint_mask(*mask, {pixels, size.width, size.height, 1, size.width});
  return {};
}

/// Keeps the rows of `row_bytes` whose `kept` is not 0.
static void keep_rows(std::vector<std::byte>& rows, size_t row_bytes, const std::vector<uint8_t>& kept) {
  size_t to = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == 0) continue;
    if (to != i) std::memcpy(rows.data() + to * row_bytes, rows.data() + i * row_bytes, row_bytes);
    ++to;
  }
  rows.resize(to * row_bytes);
}

/// Appends the labels of `rows` that `all` does not contain yet.
static void add_labels(std::span<const std::byte> rows, std::vector<std::byte>& all) {
  for (size_t at = 0; at + sizeof(int64_t) <= rows.size(); at += sizeof(int64_t)) {
    const std::span<const std::byte> one = rows.subspan(at, sizeof(int64_t));
    bool is_there = false;
    for (size_t k = 0; k < all.size() && !is_there; k += sizeof(int64_t))
      is_there = std::memcmp(all.data() + k, one.data(), sizeof(int64_t)) == 0;
    if (!is_there) all.insert(all.end(), one.begin(), one.end());
  }
}

Status FieldMover::put_ragged(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan,
                              size_t image, Slot& slot, int64_t i) {
  const FieldSpec& spec = setup_.schema[field];
  const size_t row_bytes = spec.sample_bytes();
  const int64_t sample = plan.record(image).sample;
  if (bytes.size() % row_bytes != 0) {
    return Status(ErrorCode::kCorrupt,
                  concat("[loader] field '", spec.name, "' of sample ", sample, " has ", bytes.size(),
                         " bytes, not a whole number of rows of ", row_bytes));
  }
  std::vector<std::byte>& all = slot.rows(static_cast<int>(field), i);
  if (image == 0) all.clear();
  const Kind kind = setup_.fields[field].kind;
  const int boxes = kind == Kind::kBoxes ? static_cast<int>(field) : boxes_of_[field];
  if (kind == Kind::kLabels && boxes < 0 && plan.chain.is_joined()) {
    const bool is_own = image == 0 || !plan.chain.pastes;  // pasted objects may be only a part of it
    if (is_own && plan.chain.images[image].needed.width > 0) add_labels(bytes, all);
    return {};
  }
  rows_.assign(bytes.begin(), bytes.end());
  if (moves_ && (kind == Kind::kBoxes || kind == Kind::kPoints)) {
    const augment::Moving moving = moving_of(plan, image);
    numbers_.resize(rows_.size() / sizeof(float));
    if (!rows_.empty()) std::memcpy(numbers_.data(), rows_.data(), rows_.size());
    if (kind == Kind::kBoxes) moving.boxes(numbers_, kept_[field]);
    if (kind == Kind::kPoints) moving.points(numbers_);
    if (!rows_.empty()) std::memcpy(rows_.data(), numbers_.data(), rows_.size());
  }
  if (moves_ && boxes >= 0) {
    const std::vector<uint8_t>& kept = kept_[static_cast<size_t>(boxes)];
    if (rows_.size() != kept.size() * row_bytes) {
      return Status(ErrorCode::kCorrupt,
                    concat("[loader] field '", spec.name, "' of sample ", sample, " has ",
                           rows_.size() / row_bytes, " rows for ", kept.size(), " boxes"));
    }
    keep_rows(rows_, row_bytes, kept);
  }
  all.insert(all.end(), rows_.begin(), rows_.end());
  return {};
}

// --- decoder

RegionDecoder::RegionDecoder(const Setup& setup)
    : channels_(setup.image_size.channels),
      max_pixels_(setup.options.max_pixels),
      decoder_({.max_pixels = max_pixels_}) {}

namespace {

data::ImageInfo info_of(const data::RecordHeader& header) {
  data::ImageInfo info;
  info.layout = header.layout;
  info.width = swaps_axes(header.orientation) ? header.height : header.width;
  info.height = swaps_axes(header.orientation) ? header.width : header.height;
  info.channels = header.channels;
  info.orientation = header.orientation;
  return info;
}

bool inside(const Region& region, const data::ImageInfo& info) {
  return region.x >= 0 && region.y >= 0 && region.x + region.width <= info.width &&
         region.y + region.height <= info.height;
}

}  // namespace

Result<ConstImageView> RegionDecoder::decode(const PlannedRecord& record, const augment::ChainPlan& chain,
                                             std::span<const std::byte> image, const ImageView& out) {
  const Region& region = chain.source_region;
  const data::ImageInfo planned = info_of(record.header);
  DLPIPE_RETURN_IF_ERROR(data::check_pixels(planned, max_pixels_));  // before allocating their memory
  if (record.header.layout == data::ImageLayout::kRaw && record.header.orientation <= 1) {
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_raw(image));
    if (info.channels == channels_ && inside(region, info)) {
      const ptrdiff_t stride = ptrdiff_t{info.width} * info.channels;
      const auto* first = reinterpret_cast<const uint8_t*>(image.data()) + data::kRawHeaderBytes;
      return ConstImageView(first + region.y * stride + ptrdiff_t{region.x} * info.channels, region.width,
                            region.height, info.channels, stride);
    }
  }
  if (chain.is_copy() && (out.width != region.width || out.height != region.height))
    return misuse("loader", "the plan of sample ", record.sample, " has ", region.width, "x", region.height,
                  " pixels for a slot of ", out.width, "x", out.height);
  ImageView pixels = out;
  if (!chain.is_copy()) {
    const size_t row_bytes = static_cast<size_t>(region.width) * static_cast<size_t>(channels_);
    const size_t bytes = row_bytes * static_cast<size_t>(region.height);
    augment::ChainScratch::grow(pixels_, bytes);
    pixels = {pixels_.data(), region.width, region.height, channels_, static_cast<ptrdiff_t>(row_bytes)};
  }
  const Status decoded = decoder_.decode_oriented(image, planned, region, pixels);
  if (decoded.code() == ErrorCode::kMisuse)  // the region is right for the row, so the row is wrong
    return Status(ErrorCode::kCorrupt, concat("[loader] the header table records sample ", record.sample,
                                              " as ", record.header.width, "x", record.header.height,
                                              " pixels, which its image does not have: ", decoded.message()));
  DLPIPE_RETURN_IF_ERROR(decoded);
  return ConstImageView(pixels);
}

}  // namespace dlpipe::pipeline
