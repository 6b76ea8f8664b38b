// A dataset and a short run that several tests look at, made once per test program by the program itself; and how runs
// are waited for and compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/run/sample_data.h"

namespace dlpipe::test {

struct TrainedRun {
  SampleData data;
  std::string run;
};
/// Made at the first call; removed when the program ends.
const TrainedRun& trained_run();

/// `dlpipe train` on the shared data into `out`, small enough for a second or two; `more` comes last.
std::vector<std::string> train_arguments(const std::string& out, const std::vector<std::string>& more = {});

/// Waits until `run` has logged a line for `step`; false when the program ends before.
bool wait_for_step(RunningProgram& program, const std::string& run, int64_t step);

/// Says so where `dlpipe diff` finds a difference, and where metrics or weights aren't the same bytes.
void expect_same_run(const std::string& a, const std::string& b);

/// What a file that is there holds.
std::string file_text(const std::string& path);

}  // namespace dlpipe::test
