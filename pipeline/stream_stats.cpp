// What the counters say, as the tables of `train`, `bench` and `doctor` print it.
#include <algorithm>

#include "dlpipe/pipeline/stream.h"

namespace dlpipe::pipeline {

namespace {

double mean(double level_ns, int64_t wall_ns) {
  return wall_ns > 0 ? level_ns / static_cast<double>(wall_ns) : 0;
}

}  // namespace

SourceStats BatchStream::stats() const {
  const FlowMeter::Totals flow = meter_.totals();
  const LoaderOptions& options = setup_->options;
  SourceStats stats;
  stats.wall_ns = flow.since_ns;
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if (stage == Stage::kSelector && !setup_->device_decode.is_on()) continue;
    const StageCounters& counters = counters_[stage];
    StageStats row;
    row.name = stage_name(stage);
    row.items = counters.items.value();
    row.bytes = counters.bytes.value();
    row.busy_ns = counters.busy_ns.value();
    const bool single = stage == Stage::kPrefault || stage == Stage::kStager;
    row.threads = single ? 1 : options.threads;
    // Plan, reader, selector, decoder, augmenter and batcher share the pool's threads: their common waits are booked
    // once, for input with the first that touches a portion's bytes and for output with the last.
    if (stage == Stage::kPrefault) row.wait_input_ns = std::max<int64_t>(0, flow.since_ns - row.busy_ns);
    if (stage == Stage::kReader) row.wait_input_ns = flow.starved_ns;
    if (stage == Stage::kAugmenter) row.wait_output_ns = flow.blocked_ns;
    if (stage == Stage::kStager) {
      row.wait_input_ns = flow.trainer_wait_ns;   // the trainer stood there
      row.wait_output_ns = flow.finished_any_ns;  // a batch stood there
    }
    stats.stages.push_back(std::move(row));
  }
  const int64_t portions = slots_.count() * ((options.batch + portion_samples(options.batch) - 1) /
                                             portion_samples(options.batch));
  stats.edges = {{"plan -> prefault", mean(flow.prefault_queue, flow.since_ns), portions},
                 {"prefault -> reader", mean(flow.ready_queue, flow.since_ns), portions},
                 {"batcher -> trainer", mean(flow.finished_batches, flow.since_ns), slots_.count()}};
  stats.batches = lent_batches_.load(std::memory_order_relaxed);
  stats.samples = lent_samples_.load(std::memory_order_relaxed);
  stats.substituted = bad_count_.load(std::memory_order_relaxed);
  for (const auto& worker : workers_) stats.scratch_bytes += worker->scratch_bytes();
  if (filler_ != nullptr) {
    stats.cache = filler_->stats();
    stats.cache.taken = counters_.from_cache.value();
    stats.scratch_bytes += filler_->scratch_bytes();
  }
  const MutexLock lock(lend_mutex_);
  stats.slot_bytes = slots_.size_bytes() + stager_->device_bytes();
  stats.bottleneck = bottleneck_.last(counters_, meter_);
  return stats;
}

}  // namespace dlpipe::pipeline
