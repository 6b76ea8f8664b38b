// `dlpipe bench train`: the training step alone, on one batch that is already there. The same TrainStep as in
// training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/engine/core/op_profile.h"
#include "dlpipe/engine/cpu/gemm/roofline.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/record/device_ledger.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

struct BenchTrainOptions {
  std::string model = "resnet18";
  std::string dtype = "f32";
  bool tf32 = false;      // precision.h
  bool no_cudnn = false;  // precision.h
  std::string optimizer = "sgd";
  int64_t batch = 32;
  int64_t size = 0;  // height and width, or tokens of a sequence; 0: the model's own
  int64_t channels = 3;
  int64_t classes = 0;                 // 0: the model's own, else 1000 from 96 pixels on and 10 below
  int threads = 0;                     // 0: what the process may use
  double seconds = 10;                 // of measuring, after the warm-up
  int64_t warmup = 3;                  // steps
  int64_t accumulate = 1;              // batches of `batch` a step
  std::string checkpoint_activations;  // modules by a glob
  std::string kernels = "auto";        // measured, rules, auto
  std::string device = "cpu";
  std::string graph = "auto";  // on a device: auto, on, off
  bool compile = false;        // on the host: measure replayed steps, too, in turns with the others
  bool explain = false;        // measure each op, and the machine, after the rest
};

struct StepTimes {
  int64_t steps = 0;
  double seconds = 0;             // of all these steps
  double samples_per_s = 0;       // from the median step
  double low_samples_per_s = 0;   // from the 90th percentile of step times
  double high_samples_per_s = 0;  // from the 10th
  double step_ms = 0;             // median
  double forward_ms = 0;          // means over the measured steps
  double backward_ms = 0;
  double optimizer_ms = 0;
  double cpu_seconds_per_step = 0;
};

/// With `compile`: steps whose forward and backward passes are replayed (train/step/host_replay.h).
struct ReplayedSteps {
  StepTimes times = {};
  ReplayMemory memory = {};
  std::string reason = {};  // why they weren't replayed; empty where they were
};

/// Its own times are of steps as they are.
struct BenchTrainReport : StepTimes {
  BenchTrainOptions options;       // as run: defaults filled in
  int64_t tokens = 0;              // of a sample; 0: they are images
  double forward_gflop = 0;        // of the model's forward pass on the batch
  uint64_t peak_memory_bytes = 0;  // of the process; of a device, what the engine took there
  DeviceTimes device = {};         // of the measured steps, by its own clock; no steps on the host
  std::string graph_reason;        // why a device's steps weren't one graph; empty where they were
  std::optional<ReplayedSteps> replayed = {};
  /// explain: of explained_steps more steps, dearest first.
  std::vector<engine::OpCost> costs = {};
  int64_t explained_steps = 0;
  double explained_ms = 0;  // a step, all ops and what lies between
  engine::Roofline roofline = {};
};
/// On a device a step's time is from one outcome to the next; forward and backward are then what asking for
/// them took, and with `explain` each op is waited for.
BenchTrainReport bench_train(const BenchTrainOptions& options, const Registries& registries = {});

}  // namespace dlpipe::run
