// `dlpipe bench ops`: every op by itself, forward and backward, against what the machine can do.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/engine/core/op_profile.h"
#include "dlpipe/engine/cpu/gemm/roofline.h"
#include "dlpipe/run/config/registries.h"

namespace dlpipe::run {

struct BenchOpsOptions {
  std::string ops = "*";      // a glob
  std::string dtype = "f32";  // of what autocast would make low: products, convolutions, elementwise ops
  bool tf32 = false;          // precision.h
  bool no_cudnn = false;      // precision.h
  double seconds = 10;        // of measuring, all ops together; each op runs thrice at least
  bool quick = false;         // the ops' own small samples and a small roofline: to see that all run
  int threads = 0;            // 0: what the process may use
  std::string kernels = "auto";
  std::string device = "cpu";
};

/// One direction of one op on inputs of one form.
struct OpRate {
  std::string name;     // of the inputs: "3x3"
  engine::OpCost cost;  // of one call; ns is the median's
  std::string note;     // why there are no numbers; then only `cost.op` says what
};
struct BenchOpsReport {
  BenchOpsOptions options;  // as run
  std::string device;       // its name
  engine::Roofline roofline;
  std::vector<OpRate> rates;  // by op, forward before backward
};
/// Share of the roofline: the least time that the op's arithmetic or its bytes need, over the time it took.
double roofline_share(const engine::OpCost& cost, const engine::Roofline& roofline);
/// Of which dtype a roofline's products were (device_roofline.h), by the names of options.
std::string roofline_dtype(const std::string& device, const std::string& dtype);

/// On a device each call is waited for.
BenchOpsReport bench_ops(const BenchOpsOptions& options, const Registries& registries = {});

}  // namespace dlpipe::run
