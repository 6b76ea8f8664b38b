#include "dlpipe/optim.h"

#include <gtest/gtest.h>

#include "dlpipe/layers.h"
#include "dlpipe/module.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Sequential> make_net() {
  auto net = std::make_shared<Sequential>();
  net->append("fc", std::make_shared<Linear>(2, 2, false)).append("bn", std::make_shared<BatchNorm2d>(2));
  initialize(*net, 1);
  return net;
}

void fill(Module& net, const std::string& name, double value) {
  for (NamedTensor& entry : net.state_dict()) {
    if (entry.name == name) fill_constant(entry.tensor, value);
  }
}

std::vector<double> average(const Ema& ema, const std::string& name) {
  for (const NamedTensor& entry : ema.state()) {
    if (entry.name == name) return entry.tensor.to_doubles();
  }
  return {};
}

TEST(Ema, AveragesWeightsAndRunningStatistics) {
  const auto net = make_net();
  fill(*net, "fc.weight", 1.0);
  fill(*net, "bn.running_mean", 4.0);
  Ema ema(*net, 0.75);
  fill(*net, "fc.weight", 5.0);
  fill(*net, "bn.running_mean", 8.0);
  ema.update(*net);
  EXPECT_EQ(average(ema, "fc.weight"), (std::vector<double>{2, 2, 2, 2}));
  EXPECT_EQ(average(ema, "bn.running_mean"), (std::vector<double>{5, 5}));
}

TEST(Ema, CopiesCounts) {
  const auto net = make_net();
  Ema ema(*net, 0.5);
  for (const NamedTensor& entry : net->buffers()) {
    if (entry.name == "bn.num_batches_tracked") *entry.tensor.data<int64_t>() = 6;
  }
  ema.update(*net);
  EXPECT_EQ(average(ema, "bn.num_batches_tracked"), (std::vector<double>{6}));
}

TEST(Ema, DoesNotShareTheModelsMemory) {
  const auto net = make_net();
  fill(*net, "fc.weight", 1.0);
  const Ema ema(*net, 0.5);
  fill(*net, "fc.weight", 3.0);
  EXPECT_EQ(average(ema, "fc.weight"), (std::vector<double>{1, 1, 1, 1}));
}

TEST(Ema, ResumesExactly) {
  const auto net = make_net();
  Ema whole(*net, 0.9);
  Ema before(*net, 0.9);
  fill(*net, "fc.weight", 2.0);
  whole.update(*net);
  before.update(*net);
  Ema after(*make_net(), 0.9);
  after.load_state(before.state());
  fill(*net, "fc.weight", -1.0);
  whole.update(*net);
  after.update(*net);
  EXPECT_EQ(average(after, "fc.weight"), average(whole, "fc.weight"));
}

TEST(Ema, RefusesOtherModelsAndDecays) {
  const auto net = make_net();
  EXPECT_THROW(Ema(*net, 1.0), Error);
  EXPECT_THROW(Ema(*net, -0.1), Error);
  Ema ema(*net, 0.9);
  EXPECT_THROW(ema.update(Linear(2, 2)), Error);
  EXPECT_THROW(ema.load_state({{"fc.weight", Tensor::zeros({2, 2})}}), Error);
}

}  // namespace
}  // namespace dlpipe::engine
