// Runs whose ranks split the model, beside that of one rank.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/formats/json.h"
#include "run/record/checkpoint.h"
#include "tests/engine/distance.h"
#include "tests/run/train/ranks_fixture.h"

namespace dlpipe::test {

class SplitRunTest : public RanksTest {
 protected:
  static void SetUpTestSuite() {
    RanksTest::SetUpTestSuite();
    make_verse_data(folder_->path(), 200, {0.9, 0.1});
  }

  // adamw moves a weight by about its rate, 0.003, whatever its gradient's size. Where a gradient is little but rounding, which
  // differs, so does the step: over six steps weights may be off by a few hundredths of one.
  static constexpr double kLoss = 1e-4, kWeights = 3e-4;

  /// Everything that looks at all weights or gradients at once.
  static run::TrainConfig gpt(const std::string& out) {
    run::TrainConfig config = small(out);
    config.data = *folder_ / "text";
    config.model = "gpt_char_tiny";
    config.augment = "";
    config.optimizer = "adamw";
    config.lr = 0.003;
    config.schedule = "constant";
    config.grains = 4;
    config.clip = 0.5;
    config.ema = 0.9;
    config.accumulate = 2;
    config.max_steps = 6;
    config.val_every = "3steps";
    return config;
  }

  static run::TrainConfig vit(const std::string& out) {
    run::TrainConfig config = small(out);
    config.model = "vit_small_cifar";
    config.batch = 4;
    config.grains = 2;
    config.limit = 16;
    config.val_every = "never";
    config.max_steps = 2;
    return config;
  }

  /// Numbers of metrics.jsonl by key, in order.
  static std::vector<std::pair<std::string, double>> numbers(const std::string& run) {
    std::vector<std::pair<std::string, double>> all;
    for (const std::string& line : split(text_of(run + "/metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const formats::Json json = value_or_throw(formats::Json::parse(line));
      for (const auto& [key, value] : json.members()) all.emplace_back(key, value.as_double());
    }
    return all;
  }

  static void expect_near_tensors(const std::string& first, const std::string& second, double tolerance) {
    const auto a = value_or_throw(run::load_tensors(first)), b = value_or_throw(run::load_tensors(second));
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      ASSERT_EQ(a[i].tensor.spec(), b[i].tensor.spec()) << a[i].name;
      EXPECT_LE(largest_difference(b[i].tensor, a[i].tensor), tolerance) << a[i].name;
    }
  }

  /// Losses and metrics within `loss` of each other, weights, average and optimizer's state within `weights`.
  static void expect_near_runs(const std::string& first, const std::string& second, double loss,
                               double weights) {
    const auto a = numbers(first), b = numbers(second);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].first, b[i].first);
      EXPECT_NEAR(a[i].second, b[i].second, loss) << a[i].first << " " << i;
    }
    for (const char* file : {"model", "optimizer", "ema"}) {
      const std::string path = concat("/checkpoints/last/", file, ".safetensors");
      const bool is_there = std::filesystem::exists(first + path);
      ASSERT_EQ(std::filesystem::exists(second + path), is_there) << path;
      ASSERT_TRUE(is_there || file == std::string_view("ema")) << path;  // not every run has an average
      if (is_there) expect_near_tensors(first + path, second + path, weights);
    }
    const run::Receipt x = value_or_throw(run::read_receipt(first)),
                       y = value_or_throw(run::read_receipt(second));
    EXPECT_EQ(x.batches_chain, y.batches_chain);
    EXPECT_EQ(x.samples, y.samples);
  }

  /// A part of a run: in so many ranks, up to so many steps, with options changed where it goes on.
  struct Leg {
    int world = 1;
    int64_t steps = 0;
    std::vector<std::pair<std::string, std::string>> changes = {};
  };
  /// A run that begins with `config` in the first leg, and goes on in the others.
  static void train_in_legs(const run::TrainConfig& config, const std::vector<Leg>& legs) {
    for (const Leg& leg : legs) {
      StopAfter stop(leg.steps);
      train_on(
          leg.world,
          [&](Collective* ranks) {
            run::TrainObserver* const observer = ranks == nullptr || ranks->rank() == 0 ? &stop : nullptr;
            return std::filesystem::exists(config.out + "/config.toml")
                       ? run::Session::resume(config.out, leg.changes, {}, observer, ranks)
                       : std::make_unique<run::Session>(config, run::Registries{}, observer, ranks);
          },
          &stop.stop);
    }
  }

  /// A step that isn't finite on some of `world` ranks is skipped by all of them, and the run is that of one.
  static void expect_skips_nonfinite_steps(const run::TrainConfig& config, int world) {
    ScratchFolder runs;
    train_overflowing(config, world, runs);
    expect_near_runs(runs / "alone", runs / "together", kLoss, kWeights);
  }

  /// Two ranks of such a run refuse it, and say `part`.
  static void expect_refused(run::TrainConfig config, const std::function<void(run::TrainConfig&)>& change,
                             const std::string& part) {
    change(config);
    const std::string message = refusals([&](int, run::TrainConfig& own) { own = config; })[0];
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
};

}  // namespace dlpipe::test
