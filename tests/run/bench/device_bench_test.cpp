// `bench train` and `bench ops` on the simulated device with CUDA's kernels; no test here holds a time.
#include "run/bench/bench.h"
#include "tests/run/device_step_fixture.h"

namespace dlpipe::test {
namespace {

using DeviceBench = DeviceStep;

TEST_F(DeviceBench, StepsOnABatchThatIsThere) {
  run::Registries registries;
  registries.devices = {&simulated()};
  run::BenchTrainOptions options;
  options.model = "mlp";
  options.device = "simulated";
  options.kernels = "rules";
  options.batch = 4;
  options.size = 8;
  options.seconds = 0.05;
  options.no_cudnn = true;
  const run::BenchTrainReport report = run::bench_train(options, registries);
  EXPECT_GT(report.steps, 0);
  EXPECT_GT(report.samples_per_s, 0);
  EXPECT_LE(report.low_samples_per_s, report.high_samples_per_s);
  // By its own clock; the first after the warm-up's were waited for begins anew (TrainStep::device_times), and two are
  // under way when the host's clock begins.
  EXPECT_EQ(report.device.steps, report.steps + 2 - 1);
  EXPECT_EQ(report.graph_reason, "");
  EXPECT_GT(report.peak_memory_bytes, 0);
  EXPECT_GT(report.forward_gflop, 0);
}

// By what the records say of a step there, a program's own too.
TEST_F(DeviceBench, AnOptimizerWithoutAStepThereIsRefusedAndTheOthersAreNamed) {
  const engine::OptimizerRecord& sgd = **engine::find_optimizer("sgd");
  const engine::OptimizerRecord own{"own_sgd", "sgd by another name", sgd.build, sgd.options, true};
  run::Registries registries;
  registries.devices = {&simulated()};
  registries.optimizers.add(own);
  run::BenchTrainOptions options;
  options.model = "mlp";
  options.optimizer = "adafactor";
  options.device = "simulated";
  options.kernels = "rules";
  options.batch = 4;
  options.size = 8;
  options.no_cudnn = true;
  try {
    run::bench_train(options, registries);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    std::string others;
    for (const engine::OptimizerRecord* record : engine::OptimizerRecord::built_in())
      if (record->on_device) others += concat(record->name, ", ");
    EXPECT_NE(others.find("sgd"), std::string::npos);
    EXPECT_EQ(others.find("adafactor"), std::string::npos);
    EXPECT_EQ(error.what(), "[bench] --optimizer adafactor can't run on simulated; use one of " + others +
                                "own_sgd, or --device cpu");
  }
}

TEST_F(DeviceBench, OpsRunThereBothWays) {
  run::Registries registries;
  registries.devices = {&simulated()};
  run::BenchOpsOptions options;
  options.ops = "linear";
  options.device = "simulated";
  options.kernels = "rules";
  options.seconds = 0.05;
  options.quick = true;
  options.no_cudnn = true;
  const run::BenchOpsReport report = run::bench_ops(options, registries);
  EXPECT_EQ(report.device, "simulated");
  int forward = 0, backward = 0;
  for (const run::OpRate& rate : report.rates) {
    EXPECT_EQ(rate.note, "") << rate.name;
    EXPECT_GT(rate.cost.ns, 0) << rate.name;
    ++(rate.cost.backward ? backward : forward);
  }
  EXPECT_GT(forward, 0);
  EXPECT_EQ(forward, backward);
}

}  // namespace
}  // namespace dlpipe::test
