// Where a stream stands, and going on from there.
#include <algorithm>
#include <limits>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/checksum.h"
#include "dlpipe/pipeline/stream.h"

namespace dlpipe::pipeline {

uint64_t chain_of(std::span<const uint64_t> grain_chains) {
  return grain_chains.size() == 1 ? grain_chains.front() : data::checksum64(std::as_bytes(grain_chains));
}

SourceState BatchStream::state() const {
  SourceState state;
  state.dataset_id = setup_->dataset->id();
  state.pipeline_id = setup_->pipeline_id;
  state.seed = setup_->options.seed;
  state.epoch = next_lend_ / batches_per_epoch();
  state.batch_index = next_lend_ % batches_per_epoch();
  state.samples_consumed = setup_->sampler.consumed(state.epoch, state.batch_index);
  const LoaderOptions& options = setup_->options;
  if (options.grains == 1) {
    state.chain = chains_.front();
  } else {
    state.grain_chains.resize(static_cast<size_t>(options.grains));
    std::copy(chains_.begin(), chains_.end(), state.grain_chains.begin() + setup_->first_grain());
    state.chain = chain_of(state.grain_chains);
  }
  state.bad_samples = bad_.samples();
  return state;
}

Status BatchStream::check_state(const SourceState& state) const {
  const auto refuse = [&](const std::string& what) {
    return misuse("loader", "the state to go on from is another stream's: ", what);
  };
  if (state.dataset_id != setup_->dataset->id()) {
    return refuse(concat("its dataset is ", state.dataset_id, ", and ", setup_->options.data, " is ",
                         setup_->dataset->id(), "; give the dataset that the run began with"));
  }
  if (state.pipeline_id != setup_->pipeline_id) {
    return refuse(concat("its pipeline is ", state.pipeline_id, ", this one is ", setup_->pipeline_id,
                         "; keep all that decides what batches hold: the fields and their dtype, --augment "
                         "(mean and std are part of it), "
                         "channels, views, --mixup, --cutmix, the mask's fill, the global batch, --limit and "
                         "chosen samples, shuffling, the "
                         "last batch, and what is done with bad samples"));
  }
  if (state.seed != setup_->options.seed) {
    return refuse(concat("its seed is ", state.seed, ", this one's ", setup_->options.seed, "; keep --seed"));
  }
  const auto grains = static_cast<int64_t>(state.grain_chains.size());
  if (setup_->options.grains > 1 && grains != 0 && grains != setup_->options.grains) {
    return refuse(concat("its batches have ", grains, " grains, this one's ", setup_->options.grains,
                         "; keep --grains"));
  }
  const int64_t batches = batches_per_epoch();
  if (state.epoch < 0 || state.batch_index < 0 || state.batch_index > batches ||
      state.epoch > setup_->sampler.last_epoch()) {
    return refuse(concat("it is at batch ", state.batch_index, " of epoch ", state.epoch,
                         ", and this one has ", batches,
                         " batches per epoch; keep the dataset, the global batch and --limit"));
  }
  if (state.samples_consumed != setup_->sampler.consumed(state.epoch, state.batch_index)) {
    return refuse(concat("it has consumed ", state.samples_consumed,
                         " samples, and this one would have consumed ",
                         setup_->sampler.consumed(state.epoch, state.batch_index),
                         "; keep the dataset, the global batch and --limit"));
  }
  return {};
}

Status BatchStream::seek(const SourceState& state) {
  DLPIPE_RETURN_IF_ERROR(check_state(state));
  if (setup_->options.grains == 1) {
    chains_.front() = state.chain;
  } else if (!state.grain_chains.empty()) {
    std::copy_n(state.grain_chains.begin() + setup_->first_grain(), chains_.size(), chains_.begin());
  } else {
    std::fill(chains_.begin(), chains_.end(), 0);
  }
  bad_.restore(state.bad_samples);
  bad_count_.store(bad_.count(), std::memory_order_relaxed);
  return move_to(state.epoch * batches_per_epoch() + state.batch_index);
}

Status BatchStream::seek_epoch(int64_t epoch) {
  if (epoch < 0 || epoch > setup_->sampler.last_epoch())
    return misuse("loader", "epoch ", epoch, "; use 0 to ", setup_->sampler.last_epoch());
  return move_to(epoch * batches_per_epoch());
}

// Batches that are held stay as they are; their slots come back when they are released, also while this waits: it waits
// without a lock, because a worker may be in an augmentation that waits for whoever releases.
Status BatchStream::move_to(int64_t sequence) {
  stop();
  ended_ = Status();
  DLPIPE_RETURN_IF_ERROR(unlocked_stager_->reset(sequence));
  const MutexLock lock(lend_mutex_);
  restart(sequence);
  return {};
}

}  // namespace dlpipe::pipeline
