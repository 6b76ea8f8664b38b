// Everything around the flow of batches (pipeline.cpp): opening, memory, the state of the stream, bad records, counters.
#include "dlpipe/loader.h"

#include <fcntl.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/checksum.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/setup.h"
#include "pipeline/stages/device_decode.h"

namespace dlpipe::pipeline {

// --- opening

LoaderOptions validation_options(LoaderOptions options) {
  options.shuffle = false;
  options.last = LastBatch::kKeep;
  options.on_bad = OnBadRecord::kDrop;
  options.mixup = options.cutmix = 0;
  return options;
}

Result<std::unique_ptr<Loader>> Loader::open(const LoaderOptions& options) {
  try {
    DLPIPE_ASSIGN_OR_RETURN(auto setup, open_setup(options));
    return start(std::move(setup));
  } catch (...) {  // threads and memory that the system doesn't give
    return status_from_current_exception("loader");
  }
}

Result<std::unique_ptr<Loader>> Loader::start(std::shared_ptr<const Setup> setup) {
  auto flow = std::make_unique<Flow>(std::move(setup));
  DLPIPE_RETURN_IF_ERROR(flow->open());
  return std::unique_ptr<Loader>(new Loader(std::move(flow)));
}

Loader::Loader(std::unique_ptr<Flow> flow) : flow_(std::move(flow)) {}

Loader::~Loader() = default;

Status Loader::Flow::open() {
  const LoaderOptions& options = setup->options;
  const data::Dataset& dataset = *setup->dataset;
  DLPIPE_RETURN_IF_ERROR(bad.check_file());
  DLPIPE_ASSIGN_OR_RETURN(cache, CacheFiller::open_cache(*setup));
  DLPIPE_ASSIGN_OR_RETURN(prefault_reader, dataset.reader(cache.get()));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> first, prefault_reader->stored(0));
  DLPIPE_ASSIGN_OR_RETURN(file, MappedFile::open(dataset.directory() + "/data.mdb", first.data()));
  prefaulter = std::make_unique<Prefault>(*setup, *file, *prefault_reader, counters);
  for (int32_t i = 0; i < options.slots; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto slot, Slot::create(setup, i));
    slots.add(std::move(slot));
  }
  const WorkerShared shared{*setup, planner, *file, checksums, counters, cache.get()};
  for (int i = 0; i < worker_count(options.threads); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto worker, SampleWorker::create(shared));
    workers.push_back(std::move(worker));
  }
  resident_before = static_cast<int64_t>(resident_bytes());
  DLPIPE_RETURN_IF_ERROR(check_memory(slots.count()));
  Stager::Hooks hooks{
      .ready = [this](int64_t sequence) { open_gate(sequence); },
      .credit = [this](int32_t slot) { credit(slot); },
      .again = [this](int32_t slot, std::span<const int32_t> statuses) { again(slot, statuses); }};
  DLPIPE_ASSIGN_OR_RETURN(stager, Stager::create(setup, slots, counters, 0, std::move(hooks)));
  unlocked_stager = stager.get();
  // A first guess, by the bytes of a record; the first portion replaces it.
  sample_ns = 10.0 * static_cast<double>(dataset.file_bytes()) / static_cast<double>(dataset.size());
  start_graph();
  if (cache != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(filler, CacheFiller::start(*setup, *cache, meter));
  }
  const MutexLock lock(lend_mutex);
  {
    const MutexLock in_flight(begin_mutex);
    free_slots.reserve(static_cast<size_t>(slots.most()));  // nothing is allocated where a batch comes back
  }
  restart(0);
  return {};
}

// --- properties of a loader

std::span<const FieldSpec> Loader::schema() const {
  return flow_->setup->schema;
}
int64_t Loader::batches_per_epoch() const {
  return flow_->setup->sampler.batches_per_epoch();
}
int64_t Loader::samples_per_epoch() const {
  return flow_->setup->sampler.samples_per_epoch();
}
const data::Dataset& Loader::dataset() const {
  return *flow_->setup->dataset;
}
const std::string& Loader::pipeline_id() const {
  return flow_->setup->pipeline_id;
}
std::string Loader::subset() const {
  return flow_->setup->sampler.options().subset.to_string();
}
int Loader::threads() const {
  return flow_->setup->options.threads;
}
const std::string& Loader::decode_reason() const {
  return flow_->setup->device_decode.reason;
}
int64_t Loader::planned_scratch_bytes() const {
  return pipeline::planned_scratch_bytes(*flow_->setup);
}

// --- memory

// The memory that the process already uses, the slots and the pages of their records must fit below the ceiling. Decoding
// buffers are not counted: planned_scratch_bytes() assumes that every thread decodes the dataset's largest image, which would
// refuse limits that suffice. In use, they shrink the window of pages (Flow::prefault).
Status Loader::Flow::check_memory(int64_t count) const {
  const int64_t ceiling = setup->options.memory_bytes;
  if (ceiling == 0) return {};
  const int64_t of_slot = slots.size_bytes() / slots.count();
  const data::Dataset& dataset = *setup->dataset;
  const auto file_size = static_cast<int64_t>(dataset.file_bytes());
  const int64_t of_record = std::min(file_size, file_size / std::max<int64_t>(1, dataset.size()) +
                                                    static_cast<int64_t>(PageWindow::kBlockBytes));
  const int64_t pages = std::min(file_size, count * setup->options.batch * of_record);
  const int64_t needed = resident_before + count * of_slot + pages;
  if (needed <= ceiling) return {};
  const auto bytes = [](int64_t number) { return human_bytes(static_cast<uint64_t>(number)); };
  return Status(
      ErrorCode::kOutOfMemory,
      concat("[loader] --memory ", bytes(ceiling), " is less than the ", bytes(needed),
             " that the process needs: ", bytes(resident_before), " already in use, ", bytes(count * of_slot),
             " for ", counted(count, "batch", "batches"), " (--slots) of ", bytes(of_slot), ", ",
             bytes(pages), " for the pages of their records, plus the decoding buffers of ",
             setup->options.threads, " threads; give more, or use a smaller --batch or fewer --slots"));
}

// The consumer's other memory is unknown, so batches that it keeps may use half.
Status Loader::Flow::check_kept() const {
  const int64_t count = slots.count();
  const int64_t of_slot = slots.size_bytes() / count;
  const uint64_t most = available_memory_bytes() / 2;
  if (!setup->grows_by_memory || static_cast<uint64_t>((count + 1) * of_slot) <= most) return {};
  return Status(ErrorCode::kOutOfMemory,
                concat("[loader] ", count, " batches are in memory, most of them held by the loop. They use ",
                       human_bytes(static_cast<uint64_t>(count * of_slot)),
                       ", about half of what this process may use; release those that are no longer needed, "
                       "or keep copies of only what you need"));
}

Status Loader::grow() {
  Flow& flow = *flow_;
  const LoaderOptions& options = flow.setup->options;
  if (flow.grown >= options.slots_max - options.slots) {
    return misuse("loader", "there are already ", options.slots_max, " slots; set a larger slots_max");
  }
  try {
    DLPIPE_RETURN_IF_ERROR(flow.check_memory(options.slots + flow.grown + 1));
    DLPIPE_RETURN_IF_ERROR(flow.check_kept());
    DLPIPE_ASSIGN_OR_RETURN(const bool is_done, flow.unlocked_stager->grow());
    if (!is_done) {
      const int32_t index = flow.slots.count();
      DLPIPE_ASSIGN_OR_RETURN(auto slot, Slot::create(flow.setup, index));
      const MutexLock lock(flow.lend_mutex);
      flow.slots.add(std::move(slot));
      flow.credit(index);
    }
  } catch (...) {
    return status_from_current_exception("loader");
  }
  ++flow.grown;
  return {};
}

int64_t Loader::lendable() const {
  const MutexLock lock(flow_->lend_mutex);
  return flow_->stager->lendable();
}

int64_t Loader::lendable_max() const {
  const LoaderOptions& options = flow_->setup->options;
  const MutexLock lock(flow_->lend_mutex);
  return flow_->stager->lendable() + options.slots_max - options.slots - flow_->grown;
}

// --- a stream's position, and resuming from it

uint64_t chain_of(std::span<const uint64_t> grain_chains) {
  return grain_chains.size() == 1 ? grain_chains.front() : data::checksum64(std::as_bytes(grain_chains));
}

SourceState Loader::state() const {
  const Flow& flow = *flow_;
  SourceState state;
  state.dataset_id = flow.setup->dataset->id();
  state.pipeline_id = flow.setup->pipeline_id;
  state.seed = flow.setup->options.seed;
  state.epoch = flow.next_lend / batches_per_epoch();
  state.batch_index = flow.next_lend % batches_per_epoch();
  state.samples_consumed = flow.setup->sampler.consumed(state.epoch, state.batch_index);
  const LoaderOptions& options = flow.setup->options;
  if (options.grains == 1) {
    state.chain = flow.chains.front();
  } else {
    state.grain_chains.resize(static_cast<size_t>(options.grains));
    std::copy(flow.chains.begin(), flow.chains.end(), state.grain_chains.begin() + flow.setup->first_grain());
    state.chain = chain_of(state.grain_chains);
  }
  state.bad_samples = flow.bad.samples();
  return state;
}

Status Loader::Flow::check_state(const SourceState& state) const {
  const auto refuse = [&](const std::string& what) {
    return misuse("loader", "the state to continue from belongs to another stream: ", what);
  };
  if (state.dataset_id != setup->dataset->id()) {
    return refuse(concat("its dataset is ", state.dataset_id, ", but ", setup->options.data, " is ",
                         setup->dataset->id(), "; give the dataset that the run began with"));
  }
  const auto grains = static_cast<int64_t>(state.grain_chains.size());
  if (grains != 0 && grains != setup->options.grains) {
    return refuse(concat("its batches have ", grains, " grains, but this one's have ", setup->options.grains,
                         "; keep --grains"));
  }
  if (state.pipeline_id != setup->pipeline_id) {
    const bool mixes_ranks = setup->mixing.is_on() && setup->options.grains == 1;
    return refuse(
        concat("its pipeline is ", state.pipeline_id, ", but this one is ", setup->pipeline_id,
               "; keep everything that determines the batches: the fields and their dtype, --augment "
               "(mean and std are part of it), "
               "channels, views, --mixup, --cutmix, ",
               mixes_ranks ? "--world (each rank mixes only its own samples), " : "",
               "the mask's fill, the global batch, --limit and chosen samples, --sampler, shuffling, the "
               "last batch, and what is done with bad samples"));
  }
  if (state.seed != setup->options.seed) {
    return refuse(
        concat("its seed is ", state.seed, ", but this one's is ", setup->options.seed, "; keep --seed"));
  }
  const int64_t batches = setup->sampler.batches_per_epoch();
  if (state.epoch < 0 || state.batch_index < 0 || state.batch_index > batches ||
      state.epoch > setup->sampler.last_epoch()) {
    return refuse(concat("it is at batch ", state.batch_index, " of epoch ", state.epoch,
                         ", but this one has ", batches,
                         " batches per epoch; keep the dataset, the global batch and --limit"));
  }
  if (state.samples_consumed != setup->sampler.consumed(state.epoch, state.batch_index)) {
    return refuse(concat("it has consumed ", state.samples_consumed,
                         " samples, but this one would have consumed ",
                         setup->sampler.consumed(state.epoch, state.batch_index),
                         "; keep the dataset, the global batch and --limit"));
  }
  return {};
}

Status Loader::seek(const SourceState& state) {
  Flow& flow = *flow_;
  DLPIPE_RETURN_IF_ERROR(flow.check_state(state));
  if (flow.setup->options.grains == 1) {
    flow.chains.front() = state.chain;
  } else if (!state.grain_chains.empty()) {
    std::copy_n(state.grain_chains.begin() + flow.setup->first_grain(), flow.chains.size(),
                flow.chains.begin());
  } else {
    std::fill(flow.chains.begin(), flow.chains.end(), 0);
  }
  flow.bad.restore(state.bad_samples);
  flow.bad_count.store(flow.bad.count(), std::memory_order_relaxed);
  return flow.move_to(state.epoch * batches_per_epoch() + state.batch_index);
}

Status Loader::seek_epoch(int64_t epoch) {
  Flow& flow = *flow_;
  if (epoch < 0 || epoch > flow.setup->sampler.last_epoch())
    return misuse("loader", "epoch ", epoch, "; use 0 to ", flow.setup->sampler.last_epoch());
  return flow.move_to(epoch * batches_per_epoch());
}

// Held batches are unchanged; their slots are freed when they are released, also while this waits. It waits without a lock,
// because a worker may be in an augmentation that waits for the releasing thread.
Status Loader::Flow::move_to(int64_t sequence) {
  stop();
  ended = Status();
  DLPIPE_RETURN_IF_ERROR(unlocked_stager->reset(sequence));
  const MutexLock lock(lend_mutex);
  restart(sequence);
  return {};
}

void Loader::interrupt() {
  flow_->interrupted = true;
}

// --- bad records

namespace {

constexpr std::string_view kTitle = "# sample\tepoch\tposition\tused instead\treason\n";

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return text;
}

Status quarantine_error(const Status& status) {
  return {status.code(),
          concat("[loader] cannot write the quarantine file: ", without_area(status.message()))};
}

}  // namespace

Status BadRecords::book(int64_t epoch, std::span<const Substitution> substitutions) {
  for (const Substitution& bad : substitutions) {
    samples_.insert(bad.bad_sample);
    if (!quarantine_file_.empty()) DLPIPE_RETURN_IF_ERROR(append(epoch, bad));
    if (count() > max_bad_) {
      return Status(
          ErrorCode::kCorrupt,
          concat("[loader] ", counted(count(), "bad sample"), ", more than --max-bad ", max_bad_,
                 "; the last is ", bad.bad_sample, ": ", without_area(bad.reason), "; `dlpipe verify ",
                 shell_word(data_), " --decode` finds all of them; or raise --max-bad"));
    }
  }
  return {};
}

Status BadRecords::check_file() const {
  if (quarantine_file_.empty()) return {};
  const Status status =
      stamp_regular_file("loader", quarantine_file_).status();  // reading a pipe would never end
  if (status.ok() || status.code() == ErrorCode::kNotFound) return {};
  return quarantine_error(status);
}

// A run that resumes an older checkpoint finds the same bad samples again; their lines already exist.
Status BadRecords::read_listed() {
  DLPIPE_RETURN_IF_ERROR(check_file());
  std::ifstream file(quarantine_file_);
  for (std::string line; std::getline(file, line);) {
    int64_t sample = 0;
    if (parse_int(split(line, '\t').front(), &sample)) listed_.insert(sample);
  }
  return {};
}

Status BadRecords::append(int64_t epoch, const Substitution& bad) {
  if (!read_listed_) DLPIPE_RETURN_IF_ERROR(read_listed());
  read_listed_ = true;
  if (!listed_.insert(bad.bad_sample).second) return {};
  const auto file = RegularFile::open_to_write("loader", quarantine_file_, O_WRONLY | O_APPEND);
  if (!file.ok()) return quarantine_error(file.status());
  const std::string text =
      concat(listed_.size() == 1 ? kTitle : "", bad.bad_sample, "\t", epoch, "\t", bad.position, "\t",
             bad.used_sample < 0 ? "none" : concat(bad.used_sample), "\t", one_line(bad.reason), "\n");
  const Status written =
      write_all("loader", file->fd(), std::as_bytes(std::span(text.data(), text.size())), quarantine_file_);
  return written.ok() ? Status() : quarantine_error(written);
}

Status Loader::book(int64_t epoch, std::span<const Substitution> substitutions) {
  return flow_->book(epoch, substitutions);
}

// --- counters

void Loader::note_consumer(ConsumerNews news) {
  flow_->has_news = true;
  if (news == ConsumerNews::kTakesBatch) {
    flow_->meter.batch_lent();
  } else {
    flow_->meter.trainer_waits(news == ConsumerNews::kWaits);
  }
}

namespace {

double mean(double level_ns, int64_t wall_ns) {
  return wall_ns > 0 ? level_ns / static_cast<double>(wall_ns) : 0;
}

}  // namespace

SourceStats Loader::stats() const {
  Flow& flow = *flow_;
  const FlowMeter::Totals levels = flow.meter.totals();
  const LoaderOptions& options = flow.setup->options;
  SourceStats stats;
  stats.wall_ns = levels.since_ns;
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if (stage == Stage::kSelector && !flow.setup->device_decode.is_on()) continue;
    const StageCounters& counters = flow.counters[stage];
    StageStats row;
    row.name = stage_name(stage);
    row.items = counters.items.value();
    row.bytes = counters.bytes.value();
    row.busy_ns = counters.busy_ns.value();
    const bool single = stage == Stage::kPrefault || stage == Stage::kStager;
    row.threads = single ? 1 : options.threads;
    // Plan, reader, selector, decoder, augmenter and batcher share the pool's threads: their common waits are counted once: for
    // input at the first that reads a portion's bytes, and for output at the last.
    if (stage == Stage::kPrefault) row.wait_input_ns = std::max<int64_t>(0, levels.since_ns - row.busy_ns);
    if (stage == Stage::kReader) row.wait_input_ns = levels.starved_ns;
    if (stage == Stage::kAugmenter) row.wait_output_ns = levels.blocked_ns;
    if (stage == Stage::kStager) {
      row.wait_input_ns = levels.trainer_wait_ns;   // the trainer waited there
      row.wait_output_ns = levels.finished_any_ns;  // a batch waited there
    }
    stats.stages.push_back(std::move(row));
  }
  const int64_t portions = flow.slots.count() * ((options.batch + flow.portion_samples(options.batch) - 1) /
                                                 flow.portion_samples(options.batch));
  stats.edges = {{"plan -> prefault", mean(levels.prefault_queue, levels.since_ns), portions},
                 {"prefault -> reader", mean(levels.ready_queue, levels.since_ns), portions},
                 {"batcher -> trainer", mean(levels.finished_batches, levels.since_ns), flow.slots.count()}};
  stats.batches = flow.lent_batches.load(std::memory_order_relaxed);
  stats.samples = flow.lent_samples.load(std::memory_order_relaxed);
  stats.substituted = flow.bad_count.load(std::memory_order_relaxed);
  for (const auto& worker : flow.workers) stats.scratch_bytes += worker->scratch_bytes();
  if (flow.filler != nullptr) {
    stats.cache = flow.filler->stats();
    stats.cache.taken = flow.counters.from_cache.value();
    stats.scratch_bytes += flow.filler->scratch_bytes();
  }
  const MutexLock lock(flow.lend_mutex);
  stats.slot_bytes = flow.slots.size_bytes() + flow.stager->device_bytes();
  stats.bottleneck = flow.bottleneck.last(flow.counters, flow.meter);
  return stats;
}

}  // namespace dlpipe::pipeline
