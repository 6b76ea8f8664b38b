// Measures the engine: `dlpipe bench train`, `bench ops`, `bench run`, `bench h2d`, and `info --profile`. Throws Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/device.h"
#include "dlpipe/dtype.h"
#include "engine/core/observers.h"
#include "engine/cpu/gemm/roofline.h"
#include "engine/graph/run.h"
#include "run/record/device_ledger.h"
#include "run/train/step/train_step.h"

namespace dlpipe::run {

// `dlpipe bench train`: only the training step, on one batch that is already in memory. Uses the same TrainStep as training.
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
  int threads = 0;                     // 0: as many as the process may use
  double seconds = 10;                 // of measuring, after the warm-up
  int64_t warmup = 3;                  // steps
  int64_t accumulate = 1;              // batches per step
  std::string checkpoint_activations;  // a glob for modules
  std::string kernels = "auto";        // measured, rules, auto
  std::string device = "cpu";
  std::string graph = "auto";  // on a device: auto, on, off
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

struct BenchTrainReport : StepTimes {
  BenchTrainOptions options;       // as run: defaults filled in
  int64_t tokens = 0;              // of a sample; 0: they are images
  double forward_gflop = 0;        // of the model's forward pass on the batch
  uint64_t peak_memory_bytes = 0;  // of the process; on a device, what the engine used there
  DeviceTimes device = {};         // of the measured steps, by its own clock; no steps on the host
  std::string graph_reason;        // why a device's steps weren't one graph; empty if they were
  /// With explain: measured over explained_steps more steps, most expensive first.
  std::vector<engine::OpCost> costs = {};
  int64_t explained_steps = 0;
  double explained_ms = 0;  // per step, all ops and the time between them
  engine::Roofline roofline = {};
};
/// On a device, a step's time is from one outcome to the next; forward and backward are then the times to launch them, and
/// `explain` waits for each op.
BenchTrainReport bench_train(const BenchTrainOptions& options, const Registries& registries = {});

// `dlpipe bench ops`: every op separately, forward and backward, compared with the machine's limits.

struct BenchOpsOptions {
  std::string ops = "*";      // a glob
  std::string dtype = "f32";  // of what autocast would convert: products, convolutions, elementwise ops
  bool tf32 = false;          // precision.h
  bool no_cudnn = false;      // precision.h
  double seconds = 10;        // of measuring, all ops together; each op runs at least three times
  bool quick = false;         // the ops' own small samples and a small roofline, to check that all run
  int threads = 0;            // 0: as many as the process may use
  std::string kernels = "auto";
  std::string device = "cpu";
};

/// One direction of one op on inputs of one shape.
struct OpRate {
  std::string name;     // of the inputs: "3x3"
  engine::OpCost cost;  // of one call; ns is the median's
  std::string note;     // why there are no numbers; then only `cost.op` is set
};
struct BenchOpsReport {
  BenchOpsOptions options;  // as run
  std::string device;       // its name
  engine::Roofline roofline;
  std::vector<OpRate> rates;  // by op, forward before backward
};
/// Share of the roofline: the least time that the op's arithmetic or its bytes need, over the time it took.
double roofline_share(const engine::OpCost& cost, const engine::Roofline& roofline);

/// On a device, waits for each call.
BenchOpsReport bench_ops(const BenchOpsOptions& options, const Registries& registries = {});

// `dlpipe bench run` and `dlpipe info --profile`: a compiled model's speed, as a whole and node by node. Throws Error.

struct BenchRunOptions {
  std::string model;  // file of dlpipe compile
  int64_t batch = 0;  // 0: one sample, or as many as the graph was made for
  int threads = 0;    // 0: as many as the process may use
  std::string dtype = "f32";
  std::string kernels = "auto";
  double seconds = 10;
};

struct BenchRunReport {
  BenchRunOptions options;  // as run
  int64_t runs = 0;
  double seconds = 0;        // of all these runs
  double samples_per_s = 0;  // of the median run
  double median_ms = 0;      // one run of the whole batch
  double fastest_ms = 0;
  int64_t peak_bytes = 0;  // peak memory of values, without weights and inputs
};
/// Runs on zeros; one run before measuring.
BenchRunReport bench_run(const BenchRunOptions& options);

struct NodeRate {
  std::string name;
  engine::OpCost cost;                 // of one call; ns is the median's
  engine::graph::LayoutCopies copies;  // at the start of the call
};
struct RunProfile {
  BenchRunOptions options;
  engine::Roofline roofline;
  int64_t peak_bytes = 0;
  std::vector<NodeRate> nodes;  // in the graph's order
  engine::graph::LayoutCopies output_copies;
};
RunProfile profile_run(const BenchRunOptions& options);

// `dlpipe bench h2d`: how fast bytes are copied to a device and back, from page-locked and from pageable memory.

struct CopyRate {
  int64_t bytes = 0;  // of one copy
  // Bytes per second, the median of all copies, each waited for.
  double pinned_to_device = 0;
  double pinned_to_host = 0;
  double pageable_to_device = 0;
  double pageable_to_host = 0;
};

/// Sizes from 4 KiB to 256 MiB by powers of sixteen; `seconds` in all. Throws Error.
std::vector<CopyRate> bench_copies(Device& device, double seconds);

// The measured limits of a device: the roofline of benches (engine/cpu/gemm/roofline.h).

struct RooflineSizes {
  int64_t side = 8192;                // of the square matrices of a product
  int64_t floats = int64_t{1} << 26;  // of a copy, far more than caches hold
};

/// On the host, engine::measure_roofline(dtype). On a device, the best of a few large products of
/// `dtype` with its library and large copies in its memory. Nothing else may be running, or the result is too low.
engine::Roofline measure_roofline(Device& device, DType dtype, const RooflineSizes& sizes = {});

}  // namespace dlpipe::run
