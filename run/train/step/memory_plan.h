// How much memory a training run will take, known before its first step: two small steps on a copy of the
// model, and a validation of as many samples, are measured; the rest is a straight line, since all that grows grows with the
// batch. Where that says that the whole batch takes little, it is measured itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/train/step/train_step.h"
#include "dlpipe/run/use/evaluate.h"

namespace dlpipe::run {

/// Bytes, by what holds them. The engine's and the batch slots'; the program itself, what a first run takes to find its
/// fastest kernels, and a data set's pages, which the kernel takes back when it needs them, come on top.
struct MemoryPlan {
  int64_t batch = 0;
  uint64_t parameters = 0;  // weights and buffers
  uint64_t gradients = 0;
  uint64_t optimizer = 0;    // its state
  uint64_t activations = 0;  // what a step, or a validation, holds at most beside these
  uint64_t workspace = 0;    // kernels' scratch, of all threads
  uint64_t slots = 0;        // batches in flight
  uint64_t scratch = 0;      // what the loaders' threads decode and augment in
  uint64_t average = 0;      // --ema's averaged weights
  /// No part of the total: a checkpoint on the disk, of all processes together.
  uint64_t checkpoint = 0;
  /// Nor this: what the process held when the plan was made, the program, its libraries and its tables of the data. 0: nobody knows.
  uint64_t beside = 0;
  /// What another sample in the batch takes, slots included.
  double bytes_a_sample = 0;

  uint64_t total() const {
    return parameters + gradients + optimizer + activations + workspace + slots + scratch + average;
  }
  /// The largest batch within `limit` bytes; 0 where not even one sample fits.
  int64_t largest_batch(uint64_t limit) const;
};

struct MemoryPlanArguments {
  const engine::ModelRecord* model = nullptr;
  engine::ModelArguments model_arguments;
  std::vector<std::string> freeze;
  std::vector<std::string> checkpoint_activations;
  const engine::OptimizerRecord* optimizer = nullptr;
  engine::OptimizerArguments optimizer_arguments;
  TrainStepOptions step;
  /// [H,W,C] of the pictures of validation, which are judged as `eval` says; rank 0: none are, or none that hold more than training's.
  Shape val_image;
  EvalOptions eval;
  Device* device = &cpu_device();
  int64_t batch = 1;
  uint64_t slot_bytes = 0;
  uint64_t scratch_bytes = 0;
  bool has_average = false;  // --ema
  /// A parameter's gradient goes as soon as others arrive, as into a GradientSum: `activations` are then without them.
  bool gradients_go = false;
};

/// Takes about as long as two steps; four, and what finding the fastest kernels takes, where the whole batch is measured. Leaves
/// no trace but measurements of kernels, where the kernel table asks for some: the allocator's cache is emptied and the table is
/// as before. One thread.
MemoryPlan plan_memory(const MemoryPlanArguments& arguments);

/// What the engine holds on a device at most since the last start of a measurement: tensors and scratch.
void start_memory_measurement(Device& device = cpu_device());
uint64_t measured_engine_bytes(Device& device = cpu_device());

}  // namespace dlpipe::run
