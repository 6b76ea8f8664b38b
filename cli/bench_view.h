// What `bench train` and `bench ops` answer: tables, or one JSON line.
#pragma once

#include "dlpipe/run/bench/bench_ops.h"
#include "dlpipe/run/bench/bench_train.h"

namespace dlpipe::cli {

void print_bench(const run::BenchTrainReport& bench, bool json);
void print_bench(const run::BenchOpsReport& bench, bool json);

}  // namespace dlpipe::cli
