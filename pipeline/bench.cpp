#include "pipeline/bench.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/machine.h"
#include "dlpipe/error.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/slot.h"
#include "pipeline/plan/stage_counters.h"
#include "pipeline/stages/device_decode.h"
#include "pipeline/stages/prefault.h"
#include "pipeline/stages/sample_worker.h"

namespace dlpipe::pipeline {

namespace {

constexpr int kWindows = 10;

// The result of take(), which reads batches for `seconds` and at least `batches`.
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

// The counters between two readings; levels and sizes are those of the second.
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

// --- the stages one by one on one thread, from the same classes that the graph runs

namespace {

// The parts of a loader for one thread, with one batch of planned samples at a time.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> open(const LoaderOptions& options) {
    DLPIPE_ASSIGN_OR_RETURN(auto setup, open_setup(options));
    DLPIPE_ASSIGN_OR_RETURN(auto reader, setup->dataset->reader());
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> first, reader->stored(0));
    DLPIPE_ASSIGN_OR_RETURN(auto file,
                            MappedFile::open(setup->dataset->directory() + "/data.mdb", first.data()));
    DLPIPE_ASSIGN_OR_RETURN(auto slot, Slot::create(setup, 0));
    return std::make_unique<Bench>(std::move(setup), std::move(reader), std::move(file), std::move(slot));
  }
  Bench(std::shared_ptr<const Setup> setup_in, std::unique_ptr<data::Dataset::Reader> reader,
        std::unique_ptr<MappedFile> file, std::shared_ptr<Slot> slot_in)
      : setup(std::move(setup_in)),
        slot(std::move(slot_in)),
        planner_(*setup->dataset, setup->chain, setup->sampler, setup->image_size.channels),
        dataset_reader_(std::move(reader)),
        file_(std::move(file)),
        checksums_(setup->dataset->size()),
        prefault_(*setup, *file_, *dataset_reader_, counters_),
        reader_(*dataset_reader_, checksums_),
        box_planner_(*setup, planner_, reader_),
        decoder_(*setup) {}

  Status plan(int64_t sequence) {
    slot->begin(sequence, setup->sampler.range(sequence));
    return planner_.plan_portion(slot->meta.range, 0, plans());
  }
  Status prefault() {
    size_t failed = 0;
    return prefault_.touch(plans(), &failed);
  }
  /// The part of planning that plan() deferred until the records are read.
  Status plan_late() {
    for (SamplePlan& plan : plans()) {
      size_t at_fault = 0;
      Status status = box_planner_.complete(plan, &at_fault);
      if (!status.ok() && !is_bad_record(status)) return status;
      if (!status.ok()) plan.has_bad_header = true;  // skipped
    }
    return {};
  }
  std::span<SamplePlan> plans() {
    return std::span(slot->plans).subspan(0, static_cast<size_t>(slot->meta.range.count));
  }
  Status read(const PlannedRecord& plan, std::span<const std::byte>* image) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_.read(plan));
    DLPIPE_ASSIGN_OR_RETURN(*image, data::image_bytes(*setup->dataset, record));
    return {};
  }
  Status decode(const SamplePlan& plan, std::span<const std::byte> image, const ImageView& out,
                ConstImageView* pixels) {
    return decode(plan, plan.chain, image, out, pixels);
  }
  Status decode(const PlannedRecord& record, const augment::ChainPlan& chain,
                std::span<const std::byte> image, const ImageView& out, ConstImageView* pixels) {
    DLPIPE_ASSIGN_OR_RETURN(*pixels, decoder_.decode(record, chain, image, out));
    return {};
  }
  Status apply_joined(const SamplePlan& plan, augment::ImageSource& source, const ImageView& out) {
    return setup->chain.apply_joined(plan.chain, source, out, chain_scratch_);
  }
  Status apply(const SamplePlan& plan, const ConstImageView& pixels, const ImageView& out) {
    if (pixels.data == out.data) return {};  // the decoder has already done everything
    return setup->chain.apply(plan.chain, pixels, out, chain_scratch_);
  }

  const std::shared_ptr<const Setup> setup;
  const std::shared_ptr<Slot> slot;

 private:
  const Planner planner_;
  PipelineCounters counters_;
  std::unique_ptr<data::Dataset::Reader> dataset_reader_;
  std::unique_ptr<MappedFile> file_;
  ChecksumState checksums_;
  Prefault prefault_;
  RecordReader reader_;
  BoxPlanner box_planner_;
  RegionDecoder decoder_;
  augment::ChainScratch chain_scratch_;
};

// The cost of reading the clock before and after a stage. For a small sample it is as large as some stages' time.
double clock_ns() {
  static const double cost = [] {
    constexpr int kReads = 10'000;
    const int64_t begin_ns = now_ns();
    int64_t end_ns = begin_ns;
    for (int i = 0; i < kReads; ++i) end_ns = now_ns();
    return static_cast<double>(end_ns - begin_ns) / kReads;
  }();
  return cost;
}

// Time, samples and bytes of one stage.
struct Lap {
  int64_t ns = 0;
  int64_t times = 0;
  int64_t samples = 0;
  int64_t bytes = 0;

  void add(int64_t sample_bytes) {
    ++samples;
    bytes += sample_bytes;
  }
  StageRate rate(std::string name) const {
    const double without_clock = static_cast<double>(ns) - clock_ns() * static_cast<double>(times);
    const double seconds = std::max(1.0, without_clock) * 1e-9;
    return {std::move(name), static_cast<double>(samples) / seconds, static_cast<double>(bytes) / seconds};
  }
};

// Times `work`, which returns a Status, into `lap`.
template <class Work>
Status timed(Lap& lap, Work work) {
  const int64_t begin_ns = now_ns();
  Status status = work();
  lap.ns += now_ns() - begin_ns;
  ++lap.times;
  return status;
}

/// Reads and decodes a joined plan's images, and times it.
class TimedSource : public augment::ImageSource {
 public:
  TimedSource(Bench& bench, const SamplePlan& plan, Lap& reader, Lap& decoder)
      : bench_(bench), plan_(plan), reader_(reader), decoder_(decoder) {}
  Result<ConstImageView> pixels(size_t k, const augment::ChainPlan& chain, const ImageView& out) override {
    const PlannedRecord& record = plan_.record(k);
    std::span<const std::byte> image;
    ConstImageView pixels;
    DLPIPE_RETURN_IF_ERROR(timed(reader_, [&] { return bench_.read(record, &image); }));
    DLPIPE_RETURN_IF_ERROR(
        timed(decoder_, [&] { return bench_.decode(record, chain, image, out, &pixels); }));
    decoded_ += int64_t{pixels.width} * pixels.height * pixels.channels;
    return pixels;
  }
  int64_t decoded() const { return decoded_; }

 private:
  Bench& bench_;
  const SamplePlan& plan_;
  Lap& reader_;
  Lap& decoder_;
  int64_t decoded_ = 0;  // bytes
};

/// All three stages of a joined plan.
Status run_joined(Bench& bench, const SamplePlan& plan, const ImageView& out, Lap& reader, Lap& decoder,
                  Lap& augmenter) {
  const int64_t before_ns = reader.ns + decoder.ns;
  TimedSource source(bench, plan, reader, decoder);
  Status status = timed(augmenter, [&] { return bench.apply_joined(plan, source, out); });
  augmenter.ns -= reader.ns + decoder.ns - before_ns;
  if (!status.ok()) return status;
  for (size_t k = 0; k < plan.records(); ++k) reader.bytes += plan.record(k).header.size_bytes;
  ++reader.samples;
  decoder.add(source.decoded());
  augmenter.add(int64_t{out.width} * out.height * out.channels);
  return status;
}

}  // namespace

Result<std::vector<StageRate>> bench_stages(const LoaderOptions& options, double seconds) {
  DLPIPE_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::open(options));
  if (bench->setup->image_field < 0) return std::vector<StageRate>();
  Lap plan, prefault, reader, decoder, augmenter;
  const int64_t end_ns = now_ns() + static_cast<int64_t>(seconds * 1e9);
  for (int64_t sequence = 0; sequence == 0 || now_ns() < end_ns; ++sequence) {
    DLPIPE_RETURN_IF_ERROR(timed(plan, [&] { return bench->plan(sequence); }));
    DLPIPE_RETURN_IF_ERROR(timed(prefault, [&] { return bench->prefault(); }));
    DLPIPE_RETURN_IF_ERROR(timed(plan, [&] { return bench->plan_late(); }));
    const auto plans = bench->plans();
    plan.samples += std::ssize(plans);
    prefault.samples += std::ssize(plans);
    for (const SamplePlan& one : plans) {
      for (size_t k = 0; k < one.records(); ++k) prefault.bytes += one.record(k).header.size_bytes;
    }
    for (size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].has_bad_header) continue;
      const ImageView out = bench->slot->image(static_cast<int64_t>(i));
      if (plans[i].chain.is_joined()) {
        const Status status = run_joined(*bench, plans[i], out, reader, decoder, augmenter);
        if (!status.ok() && !is_bad_record(status)) return status;
        continue;
      }
      std::span<const std::byte> image;
      ConstImageView pixels;
      Status status = timed(reader, [&] { return bench->read(plans[i], &image); });
      if (status.ok()) status = timed(decoder, [&] { return bench->decode(plans[i], image, out, &pixels); });
      if (is_bad_record(status)) continue;
      DLPIPE_RETURN_IF_ERROR(status);
      DLPIPE_RETURN_IF_ERROR(timed(augmenter, [&] { return bench->apply(plans[i], pixels, out); }));
      reader.add(plans[i].header.size_bytes);
      decoder.add(int64_t{pixels.width} * pixels.height * pixels.channels);
      augmenter.add(int64_t{out.width} * out.height * out.channels);
    }
  }
  return std::vector<StageRate>{plan.rate("plan"), prefault.rate("prefault"), reader.rate("reader"),
                                decoder.rate("decoder"), augmenter.rate("augmenter")};
}

Result<DecodeBench> bench_decode(const LoaderOptions& options, double seconds) {
  DLPIPE_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::open(options));
  if (bench->setup->image_field < 0)
    return Status(ErrorCode::kUnsupported,
                  concat("[bench] ", options.data, " has no images to decode; give a dataset of images"));
  const augment::OpRecord* const join = bench->setup->chain.find_join();
  if (join != nullptr) {
    return misuse("bench", "regions are decoded image by image, but ", join->name,
                  " joins several images; leave it out");
  }
  DecodeBench result;
  Lap full, region;
  int64_t stored_bytes = 0;
  SamplePlan whole;
  std::vector<uint8_t> pixels_of_whole;
  const int channels = bench->setup->image_size.channels;
  const int64_t end_ns = now_ns() + static_cast<int64_t>(seconds * 1e9);
  for (int64_t sequence = 0; sequence == 0 || now_ns() < end_ns; ++sequence) {
    DLPIPE_RETURN_IF_ERROR(bench->plan(sequence));
    DLPIPE_RETURN_IF_ERROR(bench->prefault());
    DLPIPE_RETURN_IF_ERROR(bench->plan_late());
    const auto plans = bench->plans();
    for (size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].has_bad_header) continue;
      const data::RecordHeader& header = plans[i].header;
      std::span<const std::byte> image;
      ConstImageView pixels;
      Status status = bench->read(plans[i], &image);
      whole.header = header;
      whole.chain = {};  // no steps: decodes straight into `out`
      whole.chain.source_region = {0, 0, header.width, header.height};
      const size_t row_bytes = static_cast<size_t>(header.width) * static_cast<size_t>(channels);
      pixels_of_whole.resize(row_bytes * static_cast<size_t>(header.height));
      const ImageView all{pixels_of_whole.data(), header.width, header.height, channels,
                          static_cast<ptrdiff_t>(row_bytes)};
      const ImageView out = bench->slot->image(static_cast<int64_t>(i));
      if (status.ok()) status = timed(full, [&] { return bench->decode(whole, image, all, &pixels); });
      if (status.ok()) status = timed(region, [&] { return bench->decode(plans[i], image, out, &pixels); });
      if (is_bad_record(status)) continue;
      DLPIPE_RETURN_IF_ERROR(status);
      full.add(std::ssize(pixels_of_whole));
      region.add(int64_t{pixels.width} * pixels.height * pixels.channels);
      stored_bytes += header.size_bytes;
    }
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, region.samples));
  result.full = full.rate("full");
  result.region = region.rate("region");
  result.mean_pixels = static_cast<double>(full.bytes) / channels / count;
  result.mean_region_pixels = static_cast<double>(region.bytes) / channels / count;
  result.mean_bytes = static_cast<double>(stored_bytes) / count;
  return result;
}

}  // namespace dlpipe::pipeline
