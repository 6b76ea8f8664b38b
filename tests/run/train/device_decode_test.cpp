// Runs on a device that decodes what it trains on, the simulated one with CUDA's kernels: the same run, bit
// for bit, as where the host decodes.
#include <gtest/gtest.h>

#include <map>

#include "dlpipe/predictor.h"
#include "dlpipe/session.h"
#include "io/formats/atomic_file.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/run/device_fixture.h"

namespace dlpipe::run {
namespace {

using test::ScratchFolder;
using test::text_of;

class DeviceDecode : public test::DeviceFixture {
 protected:
  static void SetUpTestSuite() {
    DeviceFixture::SetUpTestSuite();
    stored_ = test::make_sample_data(coefficients_->path(), 10, 80, true);
    pipeline::write_drawn_dataset(
        *coefficients_ / "corrupt",
        {.count = 60, .layout = data::ImageLayout::kCoefficients, .jpegs = {7, 8}, .damaged = {3, 20, 21}});
  }
  static void TearDownTestSuite() {
    DeviceFixture::TearDownTestSuite();
    coefficients_.reset();
  }
  static TrainConfig config(const std::string& out, const std::string& decode) {
    TrainConfig config = DeviceFixture::config(out, "simulated");
    config.data = stored_.split;
    config.augment = "rrc(32) hflip";
    config.decode = decode;
    return config;
  }
  static std::map<std::string, int64_t> items(const TrainOutcome& outcome) {
    std::map<std::string, int64_t> items;
    for (const StageStats& stage : outcome.stats.stages) items[stage.name] = stage.items;
    return items;
  }

  inline static std::unique_ptr<ScratchFolder> coefficients_ = std::make_unique<ScratchFolder>();
  inline static test::SampleData stored_;
};

class Listener : public TrainObserver {
 public:
  explicit Listener(int64_t stop_after = -1) : stop_after_(stop_after) {}
  void on_step(int64_t step, double loss) override {
    losses.push_back(loss);
    stop = stop || step == stop_after_;
  }
  void on_note(std::string_view text) override { notes += std::string(text) + "\n"; }
  std::vector<double> losses;
  std::string notes;
  std::atomic<bool> stop{false};

 private:
  int64_t stop_after_;
};

TEST_F(DeviceDecode, EveryLossIsThatOfARunDecodedOnTheHost) {
  ScratchFolder runs;
  Listener here;
  Listener there;
  const TrainOutcome host = Session(config(runs / "a", "host"), registries(), &here).train();
  const TrainOutcome device = Session(config(runs / "b", "device"), registries(), &there).train();
  ASSERT_EQ(there.losses.size(), 10u);
  EXPECT_EQ(there.losses, here.losses);
  EXPECT_EQ(device.parameters_chain, host.parameters_chain);
  EXPECT_EQ(device.batches_chain, host.batches_chain);
  EXPECT_EQ(device.last_validation->result.loss, host.last_validation->result.loss);
  EXPECT_EQ(items(device)["selector"], items(device)["reader"]);
  EXPECT_EQ(items(device)["decoder"], 0);
  EXPECT_EQ(items(host).count("selector"), 0u);
  EXPECT_EQ(there.notes.find("decoded on the host"), std::string::npos) << there.notes;
  for (const char* file : {"receipt.json", "checkpoints/last/model.safetensors"})
    EXPECT_EQ(text_of(runs / "a/" + file), text_of(runs / "b/" + file)) << file;
  // Judging takes the same way.
  const Evaluation evaluation = evaluate_dataset({.model = {.weights = runs / "b/checkpoints/last"},
                                                  .data = stored_.split,
                                                  .batch = 16,
                                                  .device = "simulated"},
                                                 registries());
  EXPECT_EQ(evaluation.report.loss, device.last_validation->result.loss);
}

TEST_F(DeviceDecode, ResumedWithTheOtherItIsTheSameRun) {
  ScratchFolder runs;
  const TrainOutcome whole = Session(config(runs / "a", "auto"), registries()).train();
  Listener stop(7);
  EXPECT_TRUE(Session(config(runs / "b", "auto"), registries(), &stop).train(&stop.stop).stopped);
  const TrainOutcome resumed = Session::resume(runs / "b", {{"decode", "host"}}, registries())->train();
  EXPECT_EQ(resumed.parameters_chain, whole.parameters_chain);
  EXPECT_EQ(resumed.batches_chain, whole.batches_chain);
}

TEST_F(DeviceDecode, DamagedTilesAreReplacedAsOnTheHost) {
  ScratchFolder runs;
  std::vector<double> losses;
  for (const char* decode : {"host", "device"}) {
    TrainConfig c = config(runs / decode, decode);
    c.data = *coefficients_ / "corrupt";
    c.augment = "rrc(32) hflip normalize(mean=0.5:0.5:0.5,std=0.25:0.25:0.25)";
    c.mixup = 0.5;
    Listener listener;
    const TrainOutcome outcome = Session(c, registries(), &listener).train();
    EXPECT_EQ(outcome.stats.substituted, 3);
    if (losses.empty()) losses = listener.losses;
    EXPECT_EQ(listener.losses, losses) << decode;
  }
  EXPECT_EQ(text_of(runs / "device/quarantine.txt"), text_of(runs / "host/quarantine.txt"));
  EXPECT_NE(text_of(runs / "device/quarantine.txt").find("corrupt"), std::string::npos);
}

TEST_F(DeviceDecode, WhyTheHostDecodesIsTold) {
  TrainConfig c = config("", "auto");
  c.data = data_.split;  // JPEGs
  c.max_steps = 1;
  c.val_every = "never";
  Listener listener;
  Session(c, registries(), &listener).train();
  EXPECT_NE(listener.notes.find("images are decoded on the host: images are stored in layout jpeg"),
            std::string::npos)
      << listener.notes;
  c.decode = "device";
  EXPECT_THROW(Session(c, registries()), Error);
  c.decode = "host";
  Listener silent;
  Session(c, registries(), &silent).train();
  EXPECT_EQ(silent.notes.find("decoded on the host"), std::string::npos) << silent.notes;
}

}  // namespace
}  // namespace dlpipe::run
