#include "dlpipe/pipeline/sample_worker.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

bool is_bad_record(const Status& status) {
  return status.code() == ErrorCode::kCorrupt || status.code() == ErrorCode::kUnsupported;
}

// Records lie anywhere: the next one's first lines come into the cache while this one is worked on; all lines
// of a small one, which is worked on for no longer than that takes.
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
      augmenter_(shared.setup.chain),
      fields_(shared.setup),
      clock_(shared.counters) {
  const Setup& setup = shared.setup;
  if (setup.floats.has_value() && !setup.mixing.is_on()) bytes_.resize(setup.picture_bytes());
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
      static_cast<int64_t>(decoder_.scratch_bytes() + augmenter_.scratch_bytes() + fields_.scratch_bytes()),
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

// Reader, decoder, augmenter: one sample's way from the map into the slot. The picture is the last of it:
// what goes to the device doesn't come back.
Status SampleWorker::produce(SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault) {
  const Setup& setup = slot.setup();
  DLPIPE_RETURN_IF_ERROR(box_planner_.complete(plan, at_fault));
  // A header that can't be comes behind its record: what is damaged is said first.
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
      return Status(ErrorCode::kCorrupt, concat("[loader] the header table gives sample ", planned.sample,
                                                " ", planned.header.width, "x", planned.header.height,
                                                " pixels and orientation ", int{planned.header.orientation}));
    }
    if (has_bad_header) continue;  // it is another one's, and nothing is planned
    DLPIPE_RETURN_IF_ERROR(fields_.put(plan, k, record, slot, i));
    if (plan.chain.is_joined()) clock_.lap(Stage::kAugmenter);  // else it goes with the picture
    if (setup.image_field >= 0 && !plan.chain.is_joined())
      DLPIPE_RETURN_IF_ERROR(produce_picture(plan, record, slot, i));
  }
  if (setup.image_field >= 0 && plan.chain.is_joined())
    DLPIPE_RETURN_IF_ERROR(produce_joined(plan, slot, i, at_fault));
  clock_.lap(Stage::kAugmenter);
  return {};
}

Status SampleWorker::produce_picture(const SamplePlan& plan, std::span<const std::byte> record, Slot& slot,
                                     int64_t i) {
  const Setup& setup = slot.setup();
  const ImageView out = image(slot, i);
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> image, data::image_bytes(*setup.dataset, record));
  if (sender_ != nullptr && send(plan, image, slot, i)) return {};
  DLPIPE_ASSIGN_OR_RETURN(const ConstImageView pixels, decoder_.decode(plan, plan.chain, image, out));
  decoded_bytes_ += int64_t{pixels.width} * pixels.height * pixels.channels;
  clock_.lap(Stage::kDecoder);
  DLPIPE_RETURN_IF_ERROR(augmenter_.apply(plan, pixels, out));
  if (!bytes_.empty()) setup.floats->convert(out.data, slot.sample(setup.image_field, i));
  return {};
}

// Records are read once more: what a compressed one gives is there until the next is read.
Status SampleWorker::produce_joined(const SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault) {
  class Source : public augment::PictureSource {
   public:
    Source(SampleWorker& worker, const SamplePlan& plan, size_t* at_fault)
        : worker_(worker), plan_(plan), at_fault_(at_fault) {}
    Result<ConstImageView> pixels(size_t k, const augment::ChainPlan& chain, const ImageView& out) override {
      *at_fault_ = k;
      worker_.clock_.lap(Stage::kAugmenter);  // of the picture before
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
  DLPIPE_RETURN_IF_ERROR(augmenter_.apply_joined(plan, source, out));
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

// Where another picture is at fault than the sample's own, the sample stays and the pictures beside it are drawn anew.
Status SampleWorker::replace(Slot& slot, int64_t i, size_t at_fault, Status reason) {
  const SamplePlan& first = slot.plans[static_cast<size_t>(i)];
  bool keeps_own = at_fault > 0;
  std::vector<Substitution> bad = {
      {first.key.position, first.record(at_fault).sample, -1, 0, reason.message()}};
  std::vector<size_t> places = {at_fault};  // of bad
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
                   reason.message()});  // a bad stand-in
    places.push_back(at_fault);
    keeps_own = keeps_own && at_fault > 0;
  }
  return Status(ErrorCode::kCorrupt,
                concat("[loader] sample ", first.sample, " of ", slot.setup().options.data,
                       " is bad, and so are the ", kMaxAttempts, " substitutes drawn for it; `dlpipe verify ",
                       shell_word(slot.setup().options.data), " --decode` finds all: ", bad.front().reason));
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
  if (setup.label_field >= 0) {  // the header has it, and a report may want it
    std::memcpy(slot.sample(setup.label_field, i), &plan.header.label, sizeof plan.header.label);
  }
  slot.meta.weight[at] = 0.0f;
  slot.meta.sample_ids[at] = plan.sample;
  slot.hashes[at] = {Slot::kDropped, static_cast<uint64_t>(plan.sample), 0};
  slot.add_substitution({plan.key.position, plan.record(at_fault).sample, -1, 0, reason.message()});
}

}  // namespace dlpipe::pipeline
