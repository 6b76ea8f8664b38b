// The second stage of a session: its loaders, and the facts about the datasets that the model and the schedule need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/loader.h"
#include "dlpipe/optim.h"
#include "run/input/dataset.h"
#include "run/record/checkpoint.h"
#include "run/train/session/options.h"
#include "run/use/loaded_model.h"

namespace dlpipe::run {

struct SessionData {
  std::vector<double> class_weights;  // of --class-weights, one for each output; empty: 1
  TrainConfig config;  // with the task, the loss and the metrics that the data decide if they are "auto"
  std::unique_ptr<BatchSource> train;
  std::unique_ptr<pipeline::Loader> val;  // null: no validation
  /// --augment, with the normalisation of --init's weights if it had none.
  std::string augment;
  /// A checkpoint's description of the model: its sizes, classes and the chain of its validation images.
  ModelState model;
  engine::ScheduleArguments schedule;
  std::string dataset_id;
  std::string val_id;
  std::string pipeline_id;
  std::string subset;          // of --limit
  FoldSamples fold;            // of --fold: the samples for validation, and those for training; null: all
  int64_t train_samples = 0;   // per epoch, on all ranks
  uint64_t scratch_bytes = 0;  // planned by both loaders for decoding and augmentation
  int64_t left_out = 0;        // samples that each epoch leaves out
};

/// `init`: the weights that a run begins with, for their normalisation and the units of their numbers. `quarantine_file`: the file
/// that lists bad records; empty: none. `resumed`: the model's state in the checkpoint of a resumed run.
SessionData open_data(const SessionOptions& options, const WeightsSource* init = nullptr,
                      const std::string& quarantine_file = {}, const Notes& notes = {},
                      const ModelState* resumed = nullptr);

/// `options` with what the data decide: the task with its loss, metrics and targets. The config also gets what the run records
/// about the data: the chain for the images, and the ids of the datasets.
SessionOptions with_data(SessionOptions options, const SessionData& data);

/// The share of each of `processes` processes in `cache_bytes`, the limit for all of them together. 0: no separate limit.
uint64_t cache_share(uint64_t cache_bytes, int processes);

/// The schedule of a run with `batches_per_epoch`.
engine::ScheduleArguments schedule_of(const TrainConfig& config, int64_t batches_per_epoch);

/// The source for --overfit-batch: the first batch of `source`, again and again.
std::unique_ptr<BatchSource> first_batch_of(BatchSource& source);

/// The first training images in the run's own order, prepared as for validation, as a model's input [N,H,W,C]; undefined if there
/// are none.
engine::Tensor first_images(const SessionOptions& options, const SessionData& data);

}  // namespace dlpipe::run
