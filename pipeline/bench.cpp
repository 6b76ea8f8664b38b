#include "dlpipe/pipeline/bench.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/machine.h"

namespace dlpipe::pipeline {

namespace {

constexpr int kWindows = 10;

// Takes batches for `seconds` and at least `batches`; answers samples taken and nanoseconds gone.
struct Taken {
  int64_t samples = 0;
  int64_t elapsed_ns = 0;
};
Result<Taken> take(Loader& loader, double seconds, int64_t batches) {
  Taken taken;
  const int64_t begin_ns = now_ns();
  const auto enough_ns = static_cast<int64_t>(seconds * 1e9);
  for (int64_t i = 0; i < batches || taken.elapsed_ns < enough_ns; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader.next());
    if (!batch.has_value()) break;  // not reached: the stream has no end
    taken.samples += batch->count;
    DLPIPE_RETURN_IF_ERROR(loader.release(*batch));
    taken.elapsed_ns = now_ns() - begin_ns;
  }
  return taken;
}

// Counters of the time between two readings. Levels and sizes are those of the second.
SourceStats difference(const SourceStats& before, SourceStats after) {
  for (size_t i = 0; i < after.stages.size(); ++i) {
    StageStats& stage = after.stages[i];
    const StageStats& old = before.stages[i];
    stage.items -= old.items;
    stage.bytes -= old.bytes;
    stage.busy_ns -= old.busy_ns;
    stage.wait_input_ns -= old.wait_input_ns;
    stage.wait_output_ns -= old.wait_output_ns;
  }
  const auto wall = static_cast<double>(after.wall_ns - before.wall_ns);
  for (size_t i = 0; i < after.edges.size() && wall > 0; ++i) {
    const double area = after.edges[i].mean_occupancy * static_cast<double>(after.wall_ns) -
                        before.edges[i].mean_occupancy * static_cast<double>(before.wall_ns);
    after.edges[i].mean_occupancy = std::max(0.0, area / wall);
  }
  after.wall_ns -= before.wall_ns;
  after.batches -= before.batches;
  after.samples -= before.samples;
  return after;
}

}  // namespace

Result<PipelineBench> bench_pipeline(const LoaderOptions& options, double seconds) {
  LoaderOptions endless = options;
  endless.epochs = -1;
  DLPIPE_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader, Loader::open(endless));
  DLPIPE_RETURN_IF_ERROR(take(*loader, seconds / 5, 2 * int64_t{options.slots}).status());
  PipelineBench bench;
  bench.threads = loader->threads();
  bench.batch = options.batch;
  const SourceStats before = loader->stats();
  const double cpu_before_s = process_cpu_seconds();
  for (int window = 0; window < kWindows; ++window) {
    DLPIPE_ASSIGN_OR_RETURN(const Taken taken, take(*loader, seconds / kWindows, 1));
    const double window_s = static_cast<double>(taken.elapsed_ns) * 1e-9;
    bench.windows.push_back(static_cast<double>(taken.samples) / window_s);
    bench.samples += taken.samples;
    bench.seconds += window_s;
  }
  bench.cpu_ns_per_sample = (process_cpu_seconds() - cpu_before_s) * 1e9 / static_cast<double>(bench.samples);
  bench.stats = difference(before, loader->stats());
  bench.peak_resident_bytes = dlpipe::peak_resident_bytes();
  std::vector<double> sorted = bench.windows;
  std::sort(sorted.begin(), sorted.end());
  bench.slowest_samples_per_s = sorted.front();
  bench.fastest_samples_per_s = sorted.back();
  bench.samples_per_s = (sorted[kWindows / 2 - 1] + sorted[kWindows / 2]) / 2;
  return bench;
}

}  // namespace dlpipe::pipeline
