// Mixed batches on a device, the simulated one: the host's pixels, labels and weights to the bit, without
// anybody waiting, and steps that are one graph.
#include <gtest/gtest.h>

#include <cstring>

#include "dlpipe/loader.h"
#include "dlpipe/session.h"
#include "engine/core/device_memory.h"
#include "run/input/batch_input.h"
#include "tests/run/device_fixture.h"

namespace dlpipe::run {
namespace {

using test::ScratchFolder;

using test::simulated;

class DeviceMixing : public test::DeviceFixture {
 protected:
  static TrainConfig config(const std::string& out, const std::string& device) {
    TrainConfig config = DeviceFixture::config(out, device);
    config.label_smoothing = 0.1;
    config.mixup = 0.4;
    config.cutmix = 1;
    return config;
  }
};

void expect_same_bits(const engine::Tensor& there, const engine::Tensor& here) {
  const engine::Tensor copy = there.to(cpu_device());
  ASSERT_EQ(copy.spec(), here.spec());
  EXPECT_EQ(std::memcmp(copy.raw(), here.raw(), here.size_bytes()), 0);
}

TEST_F(DeviceMixing, InputsAreTheHostsAndNobodyWaits) {
  pipeline::LoaderOptions options;
  options.data = data_.train;
  options.augment = "pad_crop(32,4) hflip normalize";
  options.batch = 12;
  options.threads = 2;
  options.epochs = 2;
  options.mixup = 0.4;
  options.cutmix = 1;
  options.last = pipeline::LastBatch::kKeep;
  const auto here = value_or_throw(pipeline::Loader::open(options));
  options.device = &simulated();
  const auto there = value_or_throw(pipeline::Loader::open(options));
  Stream& stream = engine::engine_stream(simulated());
  int batches = 0;
  while (const auto batch = value_or_throw(there->next())) {
    const auto expected = value_or_throw(here->next());
    ASSERT_TRUE(expected);
    BatchInput input;
    {
      const SimulatedDevice::Step step(simulated());
      input = batch_input(*batch, simulated());
    }
    const BatchInput host = batch_input(*expected);
    EXPECT_TRUE(input.is_mixed && host.is_mixed);
    EXPECT_EQ(input.total_weight, host.total_weight);
    expect_same_bits(input.pixels, host.pixels);
    expect_same_bits(input.target, host.target);
    expect_same_bits(input.weight, host.weight);
    throw_if_error(there->release(*batch, &stream));
    throw_if_error(here->release(*expected));
    ++batches;
  }
  EXPECT_FALSE(value_or_throw(here->next()));
  EXPECT_GT(batches, 0);
}

TEST_F(DeviceMixing, ARunIsTheHostsRunAndOneGraphAStep) {
  ScratchFolder runs;
  const TrainOutcome here = Session(config(runs / "a", "cpu")).train();
  TrainConfig c = config(runs / "b", "simulated");
  c.graph = "off";
  const TrainOutcome there = Session(c, registries()).train();
  EXPECT_EQ(there.batches_chain, here.batches_chain);
  EXPECT_NEAR(there.first_loss, here.first_loss, 1e-4);
  EXPECT_NEAR(there.loss, here.loss, 2e-2 * here.loss);
  c.graph = "on";
  c.out = runs / "c";
  const TrainOutcome graph = Session(c, registries()).train();
  EXPECT_EQ(graph.parameters_chain, there.parameters_chain);
  EXPECT_EQ(graph.loss, there.loss);
}

}  // namespace
}  // namespace dlpipe::run
