// The second stage of a session: its loaders, and what model and schedule take from the datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dlpipe/engine/optim/schedule.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/train/session/options.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::run {

struct SessionData {
  std::unique_ptr<BatchSource> train;
  std::unique_ptr<pipeline::Loader> val;  // null: no validation
  /// --augment, with the normalisation that --init's weights know where it had none.
  std::string augment;
  /// What a checkpoint says of the model: its sizes, classes and the chain of its validation images.
  ModelState model;
  engine::ScheduleArguments schedule;
  std::string dataset_id;
  std::string val_id;
  std::string pipeline_id;
  std::string subset;          // of --limit
  int64_t train_samples = 0;   // that an epoch takes, on all ranks
  uint64_t scratch_bytes = 0;  // of both loaders, foretold: to decode and to augment
  int64_t left_out = 0;        // samples that each epoch leaves out
};

/// `init`: the weights that a run begins with, for their normalisation. `quarantine_file`: where bad records
/// are noted; empty: nowhere.
SessionData open_data(const SessionOptions& options, const WeightsSource* init = nullptr,
                      const std::string& quarantine_file = {}, const Notes& notes = {});

/// `config` with what its run keeps of the data: the chain that images go through, and which datasets they are.
TrainConfig with_data(TrainConfig config, const SessionData& data);

/// What the cache of one of `processes` may take of `cache_bytes`, which bound all of them together. 0: no limit of its own.
uint64_t cache_share(uint64_t cache_bytes, int processes);

/// Of a run on `batches_per_epoch`.
engine::ScheduleArguments schedule_of(const TrainConfig& config, int64_t batches_per_epoch);

/// What --overfit-batch trains on: the first batch of `source`, again and again.
std::unique_ptr<BatchSource> first_batch_of(BatchSource& source);

/// Training images in the run's own order, prepared as for validation, as a model's input [N,H,W,C]; undefined
/// where there is none.
engine::Tensor first_images(const SessionOptions& options, const SessionData& data);

}  // namespace dlpipe::run
