#include "dlpipe/pipeline/stream.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dlpipe/base/ledger.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/stages/batcher.h"

namespace dlpipe::pipeline {

namespace {

// Nanoseconds that this thread spent in bodies: tells how much of a wait was decoding.
thread_local int64_t worked_ns = 0;

// The streams that this thread is in work() of, the innermost first: an augmentation of one may read another.
struct Decoding {
  const Setup* setup;
  const Decoding* outer;
};
thread_local const Decoding* decoding = nullptr;

// A message costs a microsecond or two on its way through graph and prefault thread; this much work makes
// that less than half a per cent, and is short beside a batch.
constexpr double kRunNs = 500'000;
constexpr double kSmallestRunNs = 50'000;

}  // namespace

bool is_decoding_for(const Setup* setup) {
  for (const Decoding* one = decoding; one != nullptr; one = one->outer) {
    if (setup == nullptr || one->setup == setup) return true;
  }
  return false;
}

Result<std::unique_ptr<Loader>> BatchStream::create(std::shared_ptr<const Setup> setup) {
  auto stream = std::unique_ptr<BatchStream>(new BatchStream(std::move(setup)));
  DLPIPE_RETURN_IF_ERROR(stream->prepare());
  return std::unique_ptr<Loader>(std::move(stream));
}

BatchStream::BatchStream(std::shared_ptr<const Setup> setup)
    : setup_(std::move(setup)),
      planner_(*setup_->dataset, setup_->chain, setup_->sampler, setup_->image_size.channels),
      checksums_(setup_->dataset->size()),
      meter_(setup_->options.threads),
      bad_(setup_->options.max_bad, setup_->options.quarantine_file, setup_->options.data),
      slots_(setup_->options.device->is_host() ? setup_->options.slots_max : setup_->options.slots),
      chains_(static_cast<size_t>(setup_->grains())) {
  const int64_t epochs = setup_->options.epochs;
  end_ = epochs < 0 ? std::numeric_limits<int64_t>::max() : epochs * batches_per_epoch();
}

Status BatchStream::prepare() {
  const LoaderOptions& options = setup_->options;
  const data::Dataset& dataset = *setup_->dataset;
  DLPIPE_RETURN_IF_ERROR(bad_.check_file());
  DLPIPE_ASSIGN_OR_RETURN(cache_, CacheFiller::open_cache(*setup_));
  DLPIPE_ASSIGN_OR_RETURN(prefault_reader_, dataset.reader(cache_.get()));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> first, prefault_reader_->stored(0));
  DLPIPE_ASSIGN_OR_RETURN(file_, MappedFile::open(dataset.directory() + "/data.mdb", first.data()));
  prefault_ = std::make_unique<Prefault>(*setup_, *file_, *prefault_reader_, counters_);
  for (int32_t i = 0; i < options.slots; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto slot, Slot::create(setup_, i));
    slots_.add(std::move(slot));
  }
  const WorkerShared shared{*setup_, planner_, *file_, checksums_, counters_, cache_.get()};
  for (int i = 0; i < Graph::worker_count(options.threads); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto worker, SampleWorker::create(shared));
    workers_.push_back(std::move(worker));
  }
  resident_before_ = static_cast<int64_t>(resident_bytes());
  DLPIPE_RETURN_IF_ERROR(check_memory(slots_.count()));
  Stager::Hooks hooks{
      .ready = [this](int64_t sequence) { graph_->open(sequence); },
      .credit = [this](int32_t slot) { credit(slot); },
      .again = [this](int32_t slot, std::span<const int32_t> statuses) { again(slot, statuses); }};
  DLPIPE_ASSIGN_OR_RETURN(stager_, Stager::create(setup_, slots_, counters_, 0, std::move(hooks)));
  unlocked_stager_ = stager_.get();
  // A first guess, by the bytes of a record; the first portion replaces it.
  sample_ns_ = 10.0 * static_cast<double>(dataset.file_bytes()) / static_cast<double>(dataset.size());
  graph_ = std::make_unique<Graph>(options.threads, stager_gates(*setup_), static_cast<GraphBodies&>(*this),
                                   meter_);
  if (cache_ != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(filler_, CacheFiller::start(*setup_, *cache_, meter_));
  }
  const MutexLock lock(lend_mutex_);
  {
    const MutexLock in_flight(inject_mutex_);
    free_.reserve(static_cast<size_t>(slots_.most()));  // nothing is allocated where a batch comes back
  }
  restart(0);
  return {};
}

// What the process takes already, the slots and the pages of their records must fit the ceiling. What decoding takes in
// each thread isn't known before pictures are decoded; it makes the window of pages smaller then (prefault()).
Status BatchStream::check_memory(int64_t slots) const {
  const int64_t ceiling = setup_->options.memory_bytes;
  if (ceiling == 0) return {};
  const int64_t of_slot = slots_.size_bytes() / slots_.count();
  const dlpipe::data::Dataset& dataset = *setup_->dataset;
  const auto file = static_cast<int64_t>(dataset.file_bytes());
  const int64_t of_record = std::min(
      file, file / std::max<int64_t>(1, dataset.size()) + static_cast<int64_t>(PageWindow::kBlockBytes));
  const int64_t pages = std::min(file, slots * setup_->options.batch * of_record);
  const int64_t needed = resident_before_ + slots * of_slot + pages;
  if (needed <= ceiling) return {};
  const auto bytes = [](int64_t count) { return human_bytes(static_cast<uint64_t>(count)); };
  return Status(
      ErrorCode::kOutOfMemory,
      concat("[loader] --memory ", bytes(ceiling), " is less than ", bytes(needed),
             ", what the whole process needs: ", bytes(resident_before_), " that it takes already, ",
             bytes(slots * of_slot), " for ", slots, " batches (--slots) of ", bytes(of_slot), ", ",
             bytes(pages), " for the pages of their records, and in each of ", setup_->options.threads,
             " threads what it decodes into; give more, or use a smaller --batch or fewer --slots"));
}

// What else needs memory is the consumer's, which nobody knows: batches that it keeps get half.
Status BatchStream::check_kept() const {
  const int64_t slots = slots_.count();
  const int64_t of_slot = slots_.size_bytes() / slots;
  const uint64_t most = available_memory_bytes() / 2;
  if (!setup_->grows_by_memory || static_cast<uint64_t>((slots + 1) * of_slot) <= most) return {};
  return Status(
      ErrorCode::kOutOfMemory,
      concat("[loader] the ", slots, " batches in memory, most of them kept by the loop, are ",
             human_bytes(static_cast<uint64_t>(slots * of_slot)),
             ", half of what this process may use; drop those that are no longer needed, or keep copies of "
             "what is needed of them"));
}

BatchStream::~BatchStream() {
  if (graph_ == nullptr) return;
  stop();
  (void)unlocked_stager_->reset(0);  // no copy and no callback is in flight any more
  graph_.reset();
}

// --- the consumer
// -------------------------------------------------------------------------------------------

Result<std::optional<Batch>> BatchStream::next() {
  if (!ended_.ok()) return ended_;
  if (next_lend_ >= end_) return std::optional<Batch>();
  {
    const MutexLock lock(lend_mutex_);
    if (stager_->lent() >= stager_->lendable()) {
      return misuse("loader", "next() while all ", stager_->lendable(),
                    " batches are held; release one first, or open the loader with more slots");
    }
  }
  if (!interrupted_) wait_for(next_lend_);
  if (interrupted_) return Status(ErrorCode::kCancelled, "[loader] interrupted; seek to go on");
  if (!has_news_) meter_.batch_lent();
  const MutexLock lock(lend_mutex_);
  Batch batch = stager_->lend(next_lend_);
  ended_ = book(batch);
  if (!ended_.ok()) {  // nobody gets the batch: a stream that is sought anew needs its slot
    (void)stager_->release(batch, nullptr);
    return ended_;
  }
  ++next_lend_;
  {
    const MutexLock in_flight(inject_mutex_);
    end_in_flight_ = next_lend_ + stager_gates(*setup_);
    begin_batches();
  }
  lent_batches_.fetch_add(1, std::memory_order_relaxed);
  lent_samples_.fetch_add(batch.count, std::memory_order_relaxed);
  bottleneck_.observe(counters_, meter_);
  return std::optional<Batch>(std::move(batch));
}

void BatchStream::wait_for(int64_t sequence) {
  const SpanScope span(Span::kDataIdle);
  const int64_t worked_before = worked_ns;
  const bool is_consumer = !has_news_;
  meter_.joins(true);
  if (is_consumer) meter_.trainer_waits(true);
  graph_->wait(sequence);
  meter_.joins(false);
  if (is_consumer) meter_.trainer_waits(false);
  Ledger* ledger = Ledger::current();
  if (ledger != nullptr) ledger->reassign(Span::kDataIdle, Span::kDataDecode, worked_ns - worked_before);
}

void BatchStream::note_consumer(ConsumerNews news) {
  has_news_ = true;
  if (news == ConsumerNews::kTakesBatch) {
    meter_.batch_lent();
  } else {
    meter_.trainer_waits(news == ConsumerNews::kWaits);
  }
}

// Errors, chain and bad samples are booked in the order of lending, which is the same for any thread count.
Status BatchStream::book(Batch& batch) {
  const BatchMeta& meta = stager_->meta(batch);
  DLPIPE_RETURN_IF_ERROR(meta.error);
  for (size_t grain = 0; grain < chains_.size(); ++grain)
    chains_[grain] = data::checksum64(std::as_bytes(std::span(&meta.hashes[grain], 1)), chains_[grain]);
  batch.chain = chain_of(chains_);
  return book(meta.range.epoch, meta.substitutions);
}

Status BatchStream::book(int64_t epoch, std::span<const Substitution> substitutions) {
  Status booked = bad_.book(epoch, substitutions);
  bad_count_.store(bad_.count(), std::memory_order_relaxed);
  return booked;
}

Status BatchStream::release(const Batch& batch, Stream* stream) {
  const MutexLock lock(lend_mutex_);
  return stager_->release(batch, stream);
}

int64_t BatchStream::lendable() const {
  const MutexLock lock(lend_mutex_);
  return stager_->lendable();
}

int64_t BatchStream::lendable_max() const {
  const MutexLock lock(lend_mutex_);
  return stager_->lendable() + setup_->options.slots_max - setup_->options.slots - grown_;
}

Status BatchStream::grow() {
  const LoaderOptions& options = setup_->options;
  if (grown_ >= options.slots_max - options.slots) {
    return misuse("loader", "there are ", options.slots_max, " slots already; set a larger slots_max");
  }
  try {
    DLPIPE_RETURN_IF_ERROR(check_memory(options.slots + grown_ + 1));
    DLPIPE_RETURN_IF_ERROR(check_kept());
    DLPIPE_ASSIGN_OR_RETURN(const bool is_done, unlocked_stager_->grow());
    if (!is_done) {
      const int32_t index = slots_.count();
      DLPIPE_ASSIGN_OR_RETURN(auto slot, Slot::create(setup_, index));
      const MutexLock lock(lend_mutex_);
      slots_.add(std::move(slot));
      credit(index);
    }
  } catch (...) {
    return status_from_current_exception("loader");
  }
  ++grown_;
  return {};
}

// --- slots in and out
// ---------------------------------------------------------------------------------------

// After it no portion is in the graph. What is staged or being copied is the stager's to reset.
void BatchStream::stop() {
  {
    const MutexLock lock(inject_mutex_);  // a credit begun before it is in the graph, or comes too late
    stopping_ = true;
  }
  graph_->drain();
}

void BatchStream::restart(int64_t sequence) {
  const MutexLock lock(inject_mutex_);
  meter_.reset_levels();
  graph_->close_gates();
  prefault_->start_again();
  next_lend_ = next_begin_ = sequence;
  end_in_flight_ = sequence + stager_gates(*setup_);
  stopping_ = interrupted_ = false;
  free_.clear();
  for (int32_t i = slots_.count() - 1; i >= 0; --i) {
    if (!stager_->is_lent(i)) free_.push_back(i);
  }
  begin_batches();
}

void BatchStream::credit(int32_t slot) {
  const MutexLock lock(inject_mutex_);
  if (stopping_) return;
  free_.push_back(slot);
  begin_batches();
}

void BatchStream::begin_batches() {
  while (!free_.empty() && next_begin_ < end_in_flight_) {
    const int32_t slot = free_.back();
    free_.pop_back();
    begin_batch(slots_[slot]);
  }
}

void BatchStream::again(int32_t index, std::span<const int32_t> statuses) {
  const MutexLock lock(inject_mutex_);
  if (stopping_) return;
  Slot& slot = slots_[index];
  meter_.batch_again(static_cast<int>(slot.begin_again(statuses)));
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (statuses[i] == 0) continue;
    graph_->put({.sequence = slot.meta.sequence,
                 .slot = index,
                 .first = static_cast<int32_t>(i),
                 .count = 1,
                 .on_host = true},
                1);
  }
}

void BatchStream::begin_batch(Slot& slot) {
  if (next_begin_ >= end_) return;
  const int64_t sequence = next_begin_++;
  const BatchRange range = setup_->sampler.range(sequence);
  slot.begin(sequence, range);
  const auto count = static_cast<int32_t>(range.count);
  const int32_t step = portion_samples(count);
  meter_.batch_begun(std::max(1, (count + step - 1) / step));
  graph_->put({.sequence = sequence, .slot = slot.index(), .first = 0, .count = count}, step);
}

// As many samples as make a portion worth its message, but no fewer portions than threads while those are worth one.
int32_t BatchStream::portion_samples(int64_t count) const {
  const double sample_ns = std::max(1.0, sample_ns_.load(std::memory_order_relaxed));
  const auto worth = static_cast<int64_t>(kRunNs / sample_ns);
  const int64_t share = (count + setup_->options.threads - 1) / setup_->options.threads;
  const int64_t spread = std::max(share, static_cast<int64_t>(kSmallestRunNs / sample_ns));
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(worth, spread), 1, std::max<int64_t>(count, 1)));
}

// --- the graph's bodies
// -------------------------------------------------------------------------------------

void BatchStream::plan(Portion& portion) noexcept {
  if (passes_on()) portion.failed = true;
  if (portion.failed) return;
  const int64_t begin_ns = now_ns();
  Slot& slot = slots_[portion.slot];
  Status status;
  try {
    const std::span plans(slot.plans);
    status = planner_.plan_portion(
        slot.meta.range, portion.first,
        plans.subspan(static_cast<size_t>(portion.first), static_cast<size_t>(portion.count)));
  } catch (...) {
    status = status_from_current_exception("loader");
  }
  portion.failed = !status.ok();
  if (portion.failed) slot.fail(slot.meta.range.first + portion.first, std::move(status));
  const int64_t took_ns = now_ns() - begin_ns;
  counters_[Stage::kPlan].items.add(portion.count);
  counters_[Stage::kPlan].busy_ns.add(took_ns);
  worked_ns += took_ns;
}

void BatchStream::prefault(Portion& portion) noexcept {
  if (portion.failed || passes_on()) return;
  const ScopedTimer timer(counters_[Stage::kPrefault].busy_ns);
  Slot& slot = slots_[portion.slot];
  const std::span<SamplePlan> plans(slot.plans);
  size_t failed = 0;
  Status status;
  try {
    if (const int64_t ceiling = setup_->options.memory_bytes; ceiling > 0) {
      int64_t taken = resident_before_ + slots_.size_bytes();
      for (const auto& worker : workers_) taken += worker->scratch_bytes();
      if (filler_ != nullptr) taken += filler_->scratch_bytes();
      prefault_->make_room(
          plans.subspan(static_cast<size_t>(portion.first), static_cast<size_t>(portion.count)),
          portion.sequence, portion.sequence - slots_.count() + 1, ceiling - taken);
    }
    status = prefault_->touch(
        plans.subspan(static_cast<size_t>(portion.first), static_cast<size_t>(portion.count)), &failed);
  } catch (...) {
    status = status_from_current_exception("loader");
  }
  counters_[Stage::kPrefault].items.add(portion.count);
  portion.failed = !status.ok();
  if (portion.failed)
    slot.fail(slot.meta.range.first + portion.first + static_cast<int64_t>(failed), std::move(status));
}

void BatchStream::work(Portion& portion, int worker) noexcept {
  if (passes_on()) portion.failed = true;
  if (portion.failed || portion.count == 0) return;
  const double expected_ns = sample_ns_.load(std::memory_order_relaxed);
  Slot& slot = slots_[portion.slot];
  const Decoding here{setup_.get(), decoding};
  decoding = &here;
  const int64_t took_ns = workers_[static_cast<size_t>(worker)]->process(slot, portion, expected_ns);
  decoding = here.outer;
  worked_ns += took_ns;
  // Falls fast and rises slowly: a portion during which the thread was preempted says nothing of the samples.
  const double sample_ns = static_cast<double>(took_ns) / portion.count;
  const double weight = sample_ns < expected_ns ? 0.3 : 0.03;
  sample_ns_.store(expected_ns + weight * (sample_ns - expected_ns), std::memory_order_relaxed);
}

bool BatchStream::batch(const Portion& portion) noexcept {
  const int64_t begin_ns = now_ns();
  Slot& slot = slots_[portion.slot];
  bool is_last = true;
  try {
    is_last = Batcher::done(slot, portion.count);
  } catch (...) {  // of the last portion, which finishes the batch
    slot.fail(slot.meta.range.first, status_from_current_exception("loader"));
  }
  const int64_t took_ns = now_ns() - begin_ns;
  counters_[Stage::kBatcher].items.add(portion.count);
  counters_[Stage::kBatcher].busy_ns.add(took_ns);
  worked_ns += took_ns;
  return is_last;
}

void BatchStream::stage(const Portion& portion) noexcept {
  if (stopping_.load(std::memory_order_relaxed)) return;  // its gate stays closed
  meter_.batch_finished();
  unlocked_stager_->stage(slots_[portion.slot]);
}

}  // namespace dlpipe::pipeline
