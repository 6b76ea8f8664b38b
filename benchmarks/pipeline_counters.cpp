// What the pipeline's always-on counters cost: every call that one portion of samples makes on its way (clock,
// flow meter, stage counters), repeated alone on one thread, in CPU time, against the work of the portion.
//
//   pipeline_counters            prints nanoseconds per portion and their share of the portion's work
#include <cstdint>
#include <cstdio>

#include "base/counters.h"
#include "base/machine.h"
#include "pipeline/plan/stage_counters.h"

namespace {

using namespace dlpipe;
using namespace dlpipe::pipeline;

// The calls of Loader::Flow and SampleWorker for one portion, in their order.
void one_run(PipelineCounters& counters, FlowMeter& meter, StageClock& clock, int64_t samples,
             double sample_ns) {
  meter.batch_begun(1);
  meter.planning(true);
  const int64_t plan_begin_ns = now_ns();
  counters[Stage::kPlan].items.add(samples);
  counters[Stage::kPlan].busy_ns.add(now_ns() - plan_begin_ns);
  meter.planning(false);
  meter.planned();
  meter.prefaulting();
  {
    const ScopedTimer timer(counters[Stage::kPrefault].busy_ns);
    counters[Stage::kPrefault].bytes.add(samples);
  }
  counters[Stage::kPrefault].items.add(samples);
  meter.ready();
  meter.work_begins();
  clock.begin_portion(sample_ns);
  for (int64_t i = 0; i < samples; ++i) {
    clock.begin_sample();
    clock.lap(Stage::kReader);
    clock.lap(Stage::kDecoder);
    clock.lap(Stage::kAugmenter);
  }
  clock.end_portion();
  for (const Stage stage : {Stage::kReader, Stage::kDecoder, Stage::kAugmenter}) {
    counters[stage].items.add(samples);
    counters[stage].bytes.add(samples);
  }
  meter.work_ends();
  const ScopedTimer timer(counters[Stage::kBatcher].busy_ns);
  counters[Stage::kBatcher].items.add(samples);
}

void measure(const char* what, int64_t samples, double sample_ns) {
  PipelineCounters counters;
  FlowMeter meter(2);
  StageClock clock(counters);
  constexpr int kRuns = 20'000;
  for (int i = 0; i < kRuns / 10; ++i) one_run(counters, meter, clock, samples, sample_ns);
  const double begin_s = process_cpu_seconds();  // not wall time: other programs may run beside
  for (int i = 0; i < kRuns; ++i) one_run(counters, meter, clock, samples, sample_ns);
  const double run_ns = (process_cpu_seconds() - begin_s) * 1e9 / kRuns;
  std::printf("%-42s %8.0f ns of counting per portion, %6.3f %% of its work\n", what, run_ns,
              100 * run_ns / (static_cast<double>(samples) * sample_ns));
}

}  // namespace

int main() {
  measure("1 sample of 1 ms (a photograph)", 1, 1e6);
  measure("4 samples of 120 us (a small JPEG)", 4, 120e3);
  measure("250 samples of 2 us (raw 32x32 pixels)", 250, 2e3);
  return 0;
}
