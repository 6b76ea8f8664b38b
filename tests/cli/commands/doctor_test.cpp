#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "io/formats/json.h"
#include "run/record/report.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

using formats::Json;

static Json ledger(double wait, double validation, double unaccounted, const char* busiest) {
  return Json::object(
      {{"wall_seconds", 10.0},
       {"data_wait_share", wait},
       {"unaccounted_share", unaccounted},
       {"advice", "Speed it up."},
       {"spans", Json::object({{"forward", Json::object({{"share", 0.3}})},
                               {"backward", Json::object({{"share", 0.3}})},
                               {"validation", Json::object({{"share", validation}})}})},
       {"stages", Json(Json::Array{Json::object({{"name", "reader"}, {"busy_share", 0.2}}),
                                   Json::object({{"name", busiest}, {"busy_share", 0.9}})})}});
}

TEST(Doctor, NamesTheStageThatIsWaitedFor) {
  const auto found = *run::diagnose(ledger(0.4, 0, 0, "decoder"), {}, {.dataset_layout = "jpeg"});
  EXPECT_NE(found.verdict.find("40.0 %"), std::string::npos) << found.verdict;
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_NE(found.findings[0].what.find("decoder"), std::string::npos) << found.findings[0].what;
  EXPECT_NE(found.findings[0].advice.find("--jpeg coefficients"), std::string::npos);
  const auto fast = *run::diagnose(ledger(0.4, 0, 0, "decoder"), {}, {.dataset_layout = "coefficients"});
  EXPECT_NE(fast.findings[0].advice.find("--threads"), std::string::npos);
}

// A ledger of several processes has a row of what they exchange, beside the pipeline's stages.
TEST(Doctor, WhatProcessesExchangeIsNoStageOfThePipeline) {
  Json shared = ledger(0.4, 0, 0, "decoder");
  const auto row = [](const char* name, double busy_share) {
    return Json::object({{"name", name}, {"busy_share", busy_share}});
  };
  shared.set("stages", Json(Json::Array{row("decoder", 0.3), row("collective", 0.6)}));
  shared.set("limit", "decoder");
  const auto found = *run::diagnose(shared, {}, {.dataset_layout = "jpeg"});
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_NE(found.findings[0].what.find("in the decoder"), std::string::npos) << found.findings[0].what;
  EXPECT_NE(found.findings[0].advice.find("--jpeg coefficients"), std::string::npos);
}

TEST(Doctor, AShortRunsUnaccountedTimeSaysNothing) {
  const auto is_said = [](double seconds) {
    Json times = ledger(0, 0, 0.02, "decoder");
    times.set("wall_seconds", seconds);
    const auto found = *run::diagnose(times, {}, {.dataset_layout = "jpeg"});
    return std::any_of(found.findings.begin(), found.findings.end(), [](const auto& finding) {
      return finding.what.find("unaccounted for") != std::string::npos;
    });
  };
  EXPECT_FALSE(is_said(3.5));
  EXPECT_TRUE(is_said(60));
}

TEST(Doctor, SaysNothingTwice) {
  const auto found = *run::diagnose(ledger(0.4, 0, 0, "decoder"), {}, {.dataset_layout = "jpeg"});
  const std::string all = concat(found.verdict, found.findings[0].what, found.findings[0].advice);
  for (const char* once : {"waited", "decoder", "40.0 %"})
    EXPECT_EQ(all.find(once), all.rfind(once)) << once << " in " << all;
}

TEST(Doctor, AWaitForSharedCoresIsNoFaultOfThePipeline) {
  Json shared = ledger(0.4, 0, 0, "decoder");
  shared.set("limit", "model");
  const auto found = *run::diagnose(shared, {}, {.dataset_layout = "jpeg"});
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_NE(found.findings[0].what.find("share the cores"), std::string::npos) << found.findings[0].what;
  EXPECT_EQ(found.findings[0].advice.find("coefficients"), std::string::npos);
}

TEST(Doctor, APipelineWithoutTheCpuIsNoFaultOfTheModel) {
  Json starved = ledger(0.92, 0, 0, "decoder");
  starved.set("limit", "cores");
  const auto found = *run::diagnose(starved, {}, {.dataset_layout = "jpeg"});
  ASSERT_FALSE(found.findings.empty());
  EXPECT_NE(found.findings[0].what.find("its threads did not get enough CPU time"), std::string::npos)
      << found.findings[0].what;
  EXPECT_EQ(found.findings[0].advice.find("model"), std::string::npos) << found.findings[0].advice;
}

TEST(Doctor, ALimitOfTheModelIsSaidAsSuch) {
  const auto found = *run::diagnose(ledger(0.01, 0, 0, "decoder"), {}, {.has_bf16 = true});
  EXPECT_NE(found.verdict.find("the model is the limit"), std::string::npos);
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_NE(found.findings[0].advice.find("bf16"), std::string::npos);
  run::TrainConfig low;
  low.dtype = "bf16";
  EXPECT_TRUE(run::diagnose(ledger(0.01, 0, 0, "decoder"), low, {.has_bf16 = true})->findings.empty());
}

static Json device_ledger(double data, double copies, double gaps) {
  const auto row = [](double share) { return Json::object({{"seconds", 4 * share}, {"share", share}}); };
  return Json::object({{"wall_seconds", 4.0},
                       {"spans", Json::object({{"data idle", row(data)},
                                               {"host to device", row(copies)},
                                               {"launch gap", row(gaps)}})}});
}

TEST(Doctor, ADevicesOwnClockCounts) {
  Json json = ledger(0.01, 0, 0, "augmenter");
  json.set("device", device_ledger(0.75, 0, 0));
  const auto found = *run::diagnose(json, {}, {});
  EXPECT_NE(found.verdict.find("the device waited for data 75.0 %"), std::string::npos) << found.verdict;
}

TEST(Doctor, SaysWhomADeviceWaitsFor) {
  run::TrainConfig config;
  config.dtype = "bf16";
  Json json = ledger(0.01, 0, 0, "augmenter");
  json.set("device", device_ledger(0.01, 0.2, 0.02));
  const auto copies = *run::diagnose(json, config, {});
  EXPECT_NE(copies.verdict.find("for copies to it 20.0 %"), std::string::npos) << copies.verdict;
  ASSERT_EQ(copies.findings.size(), 1u);
  EXPECT_NE(copies.findings[0].advice.find("bench h2d"), std::string::npos);
  json.set("device", device_ledger(0.01, 0.02, 0.3));
  const auto host = *run::diagnose(json, config, {});
  EXPECT_NE(host.verdict.find("the host to ask for the next step 30.0 %"), std::string::npos) << host.verdict;
  ASSERT_EQ(host.findings.size(), 1u);
  json.set("device", device_ledger(0.01, 0.01, 0.01));
  const auto busy = *run::diagnose(json, config, {});
  EXPECT_NE(busy.verdict.find("the model is the limit"), std::string::npos) << busy.verdict;
  EXPECT_TRUE(busy.findings.empty());
}

TEST(Doctor, TheLargestShareComesFirst) {
  const auto found = *run::diagnose(ledger(0.1, 0.5, 0.03, "prefault"), {}, {.quarantined_samples = 2});
  ASSERT_EQ(found.findings.size(), 4u);
  EXPECT_NE(found.findings[0].what.find("validation"), std::string::npos);
  EXPECT_NE(found.findings[1].advice.find("storage"), std::string::npos);
  EXPECT_NE(found.findings[3].what.find("2 samples"), std::string::npos);
}

// Whatever the run had, the advice is more; what came at its end alone doesn't come less often.
TEST(Doctor, PausesAreToComeLessOftenThanTheyDid) {
  const auto advice = [](const char* checkpoint_every, double wall_seconds) {
    Json saving = ledger(0, 0, 0, "decoder");
    saving.set("steps", int64_t{1000});
    saving.set("wall_seconds", wall_seconds);
    saving.set("spans", Json::object({{"checkpoint", Json::object({{"share", 0.25}})}}));
    run::TrainConfig config;
    config.checkpoint_every = checkpoint_every;
    config.epochs = 10;
    const auto found = *run::diagnose(saving, config, {});
    return found.findings.empty() ? "" : found.findings.front().advice;
  };
  EXPECT_EQ(advice("5min", 3600), "save less often: --checkpoint-every 15min");
  EXPECT_EQ(advice("20min", 36000), "save less often: --checkpoint-every 60min");
  EXPECT_EQ(advice("2.5s", 3600), "save less often: --checkpoint-every 7.5s");
  EXPECT_EQ(advice("100steps", 3600), "save less often: --checkpoint-every 300steps");
  EXPECT_EQ(advice("2epochs", 3600), "save less often: --checkpoint-every 6epochs");
  for (const char* at_the_end : {"never", "5min", "1000steps", "10epochs"})
    EXPECT_EQ(advice(at_the_end, 200), "") << at_the_end;
  run::TrainConfig config;
  config.val_every = "8epochs";
  config.epochs = 80;
  EXPECT_EQ(run::diagnose(ledger(0, 0.5, 0, "decoder"), config, {})->findings.front().advice,
            "validate less often: --val-every 40epochs");
}

TEST(Doctor, JudgesAsTheRunItselfDid) {
  Json short_run = ledger(0.4, 0.5, 0, "decoder");
  short_run.set("limit", "");
  const auto found = *run::diagnose(short_run, {}, {.has_bf16 = true});
  EXPECT_NE(found.verdict.find("too short"), std::string::npos) << found.verdict;
  EXPECT_TRUE(found.findings.empty());
  Json slow_start = ledger(0.01, 0, 0, "decoder");
  slow_start.set("limit", "start");
  slow_start.set("spans", Json::object({{"start", Json::object({{"share", 0.904}})}}));
  const std::string verdict = run::diagnose(slow_start, {}, {})->verdict;
  EXPECT_NE(verdict.find("start took 90.4 %"), std::string::npos) << verdict;
  EXPECT_EQ(verdict.find("model"), std::string::npos) << verdict;
}

TEST(Doctor, LooksAtARunThatIsStillGoing) {
  ScratchDirectory folder;
  RunningProgram program(train_arguments(folder / "run", {"--epochs", "100000", "--val-every", "never"}));
  while (!std::filesystem::exists(folder / "run/ledger.json") && !program.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Outcome outcome = run_dlpipe({"doctor", folder / "run"});
  program.send(SIGINT);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 3) << stopped.err;
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("up to step "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("because the run is still in progress"), std::string::npos) << outcome.out;
  const Outcome over = run_dlpipe({"doctor", folder / "run"});
  EXPECT_EQ(over.out.find("up to step "), std::string::npos) << over.out;
  std::string line = over.out;  // it is wrapped
  std::replace(line.begin(), line.end(), '\n', ' ');
  EXPECT_NE(line.find("stopped by a signal at step "), std::string::npos) << line;
  EXPECT_NE(line.find("train --resume "), std::string::npos) << line;
}

TEST(Doctor, ARunThatWasKilledIsNotStillGoing) {
  ScratchDirectory folder;
  RunningProgram program(train_arguments(folder / "run", {"--epochs", "100000", "--val-every", "never"}));
  while (!std::filesystem::exists(folder / "run/ledger.json") && !program.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  program.send(SIGKILL);
  program.wait();
  const Outcome outcome = run_dlpipe({"doctor", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("because the run was killed or failed"), std::string::npos) << outcome.out;
}

// Its commands are for copying.
TEST(Doctor, CommandsAreWhole) {
  run::TrainConfig config;
  config.data = "my data";
  config.augment = "rrc(224) hflip";
  config.batch = 64;
  const auto advice = [&](const char* busiest) {
    return run::diagnose(ledger(0.4, 0, 0, busiest), config, {})->findings.front().advice;
  };
  EXPECT_NE(advice("reader").find("`dlpipe bench storage 'my data'`"), std::string::npos) << advice("reader");
  EXPECT_NE(
      advice("augmenter").find("`dlpipe bench pipeline 'my data' --augment 'rrc(224) hflip' --batch 64`"),
      std::string::npos)
      << advice("augmenter");
}

TEST(Doctor, LooksAtARealRun) {
  const Outcome outcome = run_dlpipe({"doctor", trained_run().run});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("data"), std::string::npos) << outcome.out;
  const Outcome json = run_dlpipe({"doctor", trained_run().run, "--json"});
  ASSERT_TRUE(Json::parse(json.out).ok()) << json.out;
  EXPECT_NE((*Json::parse(json.out))["verdict"].as_string(), "");
}

TEST(Doctor, OffersToMeasureTheRunsOwnStep) {
  const ScratchDirectory folder;
  std::filesystem::copy(trained_run().run, folder / "run", std::filesystem::copy_options::recursive);
  Json quiet = *Json::parse(file_text(folder / "run/ledger.json"));
  quiet.set("limit", "");
  quiet.set("unaccounted_share", 0.0);
  std::ofstream(folder / "run/ledger.json") << quiet.dump();
  const auto said = [&] {
    std::string out = run_dlpipe({"doctor", folder / "run"}).out;
    std::replace(out.begin(), out.end(), '\n', ' ');
    return out;
  };
  EXPECT_NE(said().find("`dlpipe bench train --model lenet --size 32 --classes 10 --batch "),
            std::string::npos)
      << said();
  std::filesystem::remove_all(folder / "run/checkpoints/last");
  EXPECT_EQ(said().find("bench train"), std::string::npos) << "of what size isn't known";
  EXPECT_NE(said().find("no further findings"), std::string::npos) << said();
}

TEST(Doctor, CountsQuarantinedSamplesWithoutTheHeadOfTheirList) {
  const ScratchDirectory folder;
  std::filesystem::copy(trained_run().run, folder / "run", std::filesystem::copy_options::recursive);
  std::ofstream(folder / "run/quarantine.txt") << "# sample\tepoch\n23\t0\n";
  const Outcome outcome = run_dlpipe({"doctor", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("1 sample was bad"), std::string::npos) << outcome.out;
}

TEST(Doctor, WhatIsNoRunIsSaid) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe({"doctor", folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("has no ledger"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
