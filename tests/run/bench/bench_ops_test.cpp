// `bench ops` on the host; no test here holds a time.
#include "run/bench/bench.h"

#include <gtest/gtest.h>

#include <string>

namespace dlpipe::run {
namespace {

/// Bytes that the forward passes of an op's samples read and write.
double forward_bytes(const std::string& op, const std::string& dtype) {
  BenchOpsOptions options;
  options.ops = op;
  options.dtype = dtype;
  options.kernels = "rules";
  options.seconds = 0.01;
  options.quick = true;
  double bytes = 0;
  for (const OpRate& rate : bench_ops(options).rates)
    if (rate.note.empty() && !rate.cost.backward) bytes += rate.cost.bytes;
  return bytes;
}

TEST(BenchOps, ADtypeIsOfTheOpsThatAutocastGivesItTo) {
  for (const char* op : {"linear", "relu"}) {
    const double wide = forward_bytes(op, "f32"), low = forward_bytes(op, "bf16");
    EXPECT_GT(low, 0) << op;
    EXPECT_LT(low, 0.6 * wide) << op;
  }
  EXPECT_EQ(forward_bytes("cross_entropy", "bf16"), forward_bytes("cross_entropy", "f32"));
}

}  // namespace
}  // namespace dlpipe::run
