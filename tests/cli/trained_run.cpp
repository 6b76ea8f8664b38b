#include "tests/cli/trained_run.h"

#include <stdexcept>

#include "tests/cli/program.h"

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

}  // namespace dlpipe::test
