// What do messages, waiting and batching cost? The pipeline at T threads beside T times the rate of its
// stages run one after another, alone, on one thread; rounds interleaved:
//   pipeline_efficiency DATA "EXPRESSION" [--batch N] [--seconds S] [--threads T...]
// 1.00 means that nothing is lost; the prefault thread's work counts among the stages, and it has no core of
// its own.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/machine.h"
#include "pipeline/bench.h"

namespace dlpipe::pipeline {
namespace {

constexpr int kRounds = 7;

/// Samples/s of one thread that does all of a sample's stages.
double stages_rate(const LoaderOptions& options, double seconds) {
  double seconds_a_sample = 0;
  for (const StageRate& stage : value_or_throw(bench_stages(options, seconds)))
    seconds_a_sample += 1 / stage.samples_per_s;
  return 1 / seconds_a_sample;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(LoaderOptions options, int threads, double seconds) {
  options.threads = threads;
  std::vector<double> pipeline, alone, shares;
  for (int round = 0; round < kRounds; ++round) {
    alone.push_back(stages_rate(options, seconds));
    pipeline.push_back(value_or_throw(bench_pipeline(options, seconds)).samples_per_s);
    alone.push_back(stages_rate(options, seconds));
    const double before_and_after = (alone[alone.size() - 2] + alone.back()) / 2;
    shares.push_back(pipeline.back() / (threads * before_and_after));
  }
  std::printf(
      "%d thread(s): pipeline %10.0f img/s, stages alone on one thread %10.0f img/s; %.3f of T x alone (%.3f "
      "to %.3f)\n",
      threads, median(pipeline), median(alone), median(shares),
      *std::min_element(shares.begin(), shares.end()), *std::max_element(shares.begin(), shares.end()));
}

}  // namespace
}  // namespace dlpipe::pipeline

int main(int count, char** arguments) {
  using namespace dlpipe;
  pipeline::LoaderOptions options;
  std::vector<std::string> words;
  std::vector<int> threads;
  double seconds = 2;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--batch") == 0 && i + 1 < count) {
      options.batch = std::atoll(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--seconds") == 0 && i + 1 < count) {
      seconds = std::atof(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--threads") == 0) {
      while (i + 1 < count && std::atoi(arguments[i + 1]) > 0) threads.push_back(std::atoi(arguments[++i]));
    } else {
      words.emplace_back(arguments[i]);
    }
  }
  if (words.size() != 2) {
    std::fprintf(
        stderr,
        "usage: pipeline_efficiency DATA \"EXPRESSION\" [--batch N] [--seconds S] [--threads T...]\n");
    return 2;
  }
  if (threads.empty()) threads = {1, available_threads()};
  options.data = words[0];
  options.augment = words[1];
  std::printf("%s, %s, \"%s\", batches of %lld\n", cpu_model().c_str(), words[0].c_str(), words[1].c_str(),
              static_cast<long long>(options.batch));
  for (const int one : threads) pipeline::measure(options, one, seconds);
  return 0;
}
