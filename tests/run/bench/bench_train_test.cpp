// `bench train` on the host; no test here holds a time.
#include "run/bench/bench.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/machine.h"
#include "engine/core/measured_kernels.h"
#include "run/record/kernels.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {
namespace {

BenchTrainOptions small_bench() {
  BenchTrainOptions options;
  options.model = "mlp";
  options.kernels = "rules";
  options.batch = 4;
  options.size = 8;
  options.seconds = 0.05;
  return options;
}

TEST(BenchTrain, MeasuresStepsAsTheyAre) {
  const double cpu_begin = process_cpu_seconds();
  const BenchTrainReport report = bench_train(small_bench());
  EXPECT_GT(report.steps, 0);
  EXPECT_LE(report.low_samples_per_s, report.high_samples_per_s);
  EXPECT_GT(report.cpu_seconds_per_step, 0);
  EXPECT_LE(report.cpu_seconds_per_step * static_cast<double>(report.steps),
            process_cpu_seconds() - cpu_begin);
}

TEST(BenchTrain, SaysWhatItTookWhereNothingWasGiven) {
  BenchTrainOptions options = small_bench();
  EXPECT_EQ(bench_train(options).options.size, 8);
  EXPECT_EQ(bench_train(options).options.classes, 10);
  options.size = 0;
  EXPECT_EQ(bench_train(options).options.size, 32);
  options.size = 96;
  EXPECT_EQ(bench_train(options).options.classes, 1000);
  options.classes = 3;
  EXPECT_EQ(bench_train(options).options.classes, 3);
}

TEST(BenchTrain, ASearchForKernelsThatTakesLongIsSaidOnce) {
  const test::ScratchFolder cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  use_kernels("measured");
  const auto said_of = [measured = engine::kernel_table().measured()](const char* key, int milliseconds) {
    testing::internal::CaptureStderr();
    measured->find_or_measure(key, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      return engine::KernelChoice{"direct", 1, 1};
    });
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_of("a", 1000), "");
  const std::string said = said_of("b", 0);
  EXPECT_NE(said.find("choosing the fastest kernels"), std::string::npos) << said;
  EXPECT_NE(said.find("DLPIPE_KERNELS=rules"), std::string::npos) << said;
  EXPECT_EQ(said_of("c", 0), "");
  engine::kernel_table().clear();
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace dlpipe::run
