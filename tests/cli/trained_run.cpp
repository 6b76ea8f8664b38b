#include "tests/cli/trained_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "io/formats/atomic_file.h"

namespace dlpipe::test {

static const SampleData& shared_data() {
  static const ScratchDirectory folder;
  static const SampleData data = make_sample_data(folder.path(), 40);
  return data;
}

std::vector<std::string> train_arguments(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train",
                                        "--data",
                                        shared_data().split,
                                        "--model",
                                        "lenet",
                                        "--batch",
                                        "16",
                                        "--lr",
                                        "0.02",
                                        "--epochs",
                                        "2",
                                        "--threads",
                                        "2",
                                        "--seed",
                                        "3",
                                        "--out",
                                        out,
                                        "--augment",
                                        "pad_crop(32,4) hflip"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const TrainedRun& trained_run() {
  static const ScratchDirectory folder;
  static const TrainedRun run = [] {
    TrainedRun made{shared_data(), folder / "run"};
    const Outcome outcome = run_dlpipe(train_arguments(made.run));
    if (outcome.exit_code != 0) throw std::runtime_error("train failed: " + outcome.err);
    return made;
  }();
  return run;
}

bool wait_for_step(RunningProgram& program, const std::string& run, int64_t step) {
  while (!program.ended()) {
    const auto text = formats::read_file(run + "/metrics.jsonl");
    if (text.ok() && std::count(text->begin(), text->end(), '\n') >= step) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void expect_same_run(const std::string& a, const std::string& b) {
  const Outcome diff = run_dlpipe({"diff", a, b});
  EXPECT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_EQ(file_text(a + "/metrics.jsonl"), file_text(b + "/metrics.jsonl"));
  EXPECT_EQ(file_text(a + "/checkpoints/last/model.safetensors"),
            file_text(b + "/checkpoints/last/model.safetensors"));
}

std::string file_text(const std::string& path) {
  return *formats::read_file(path);
}

}  // namespace dlpipe::test
