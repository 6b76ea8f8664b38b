// A dataset and a short run that several tests look at; made once per test program, by the program itself.
#pragma once

#include <string>
#include <vector>

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

}  // namespace dlpipe::test
