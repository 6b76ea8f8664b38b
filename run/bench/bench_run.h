// `dlpipe bench run` and `dlpipe info --profile`: a compiled model's speed, as a whole and node by node. Throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/engine/core/op_profile.h"
#include "dlpipe/engine/cpu/gemm/roofline.h"
#include "dlpipe/engine/graph/layout_copies.h"

namespace dlpipe::run {

struct BenchRunOptions {
  std::string model;  // file of dlpipe compile
  int64_t batch = 0;  // 0: one sample, or as many as the graph was made for
  int threads = 0;    // 0: what the process may use
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
  int64_t peak_bytes = 0;  // most memory of values at once, beside weights and inputs
};
/// Runs on zeros; one run before measuring.
BenchRunReport bench_run(const BenchRunOptions& options);

struct NodeRate {
  std::string name;
  engine::OpCost cost;                 // of one call; ns is the median's
  engine::graph::LayoutCopies copies;  // that the call began with
};
struct RunProfile {
  BenchRunOptions options;
  engine::Roofline roofline;
  int64_t peak_bytes = 0;
  std::vector<NodeRate> nodes;  // in the graph's order
  engine::graph::LayoutCopies output_copies;
};
RunProfile profile_run(const BenchRunOptions& options);

}  // namespace dlpipe::run
