#include "run/ingest/split_writer.h"

#include <algorithm>
#include <memory>

#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/data/dataset_writer.h"
#include "run/ingest/dedup.h"
#include "run/ingest/image_worker.h"
#include "run/ingest/publish.h"

namespace dlpipe::ingest {

std::string IngestRun::limiting() const {
  const int64_t elapsed = std::max<int64_t>(1, now_ns() - begin_ns);
  if (write_ns > elapsed / 2) return "write";
  const std::pair<int64_t, const char*> stages[] = {{counters.read_ns.value(), "read"},
                                                    {counters.decode_ns.value(), "decode"},
                                                    {counters.encode_ns.value(), "encode"}};
  return std::max_element(std::begin(stages), std::end(stages))->second;
}

void IngestRun::report(bool now) {
  constexpr int64_t kInterval_ns = 250'000'000;
  const int64_t at = now_ns();
  if (!on_progress || (!now && at - reported_ns < kInterval_ns)) return;
  progress.seconds = static_cast<double>(at - begin_ns) * 1e-9;
  const double window_s = static_cast<double>(at - reported_ns) * 1e-9;
  const double rate = window_s > 0 ? static_cast<double>(work_files - reported_files) / window_s : 0;
  // Smoothed, because single transactions make the rate jump. The last window is ignored: it is short and not representative.
  if (!now || progress.samples_per_s <= 0)
    progress.samples_per_s = progress.samples_per_s > 0 ? 0.7 * progress.samples_per_s + 0.3 * rate : rate;
  const double mean = progress.seconds > 0 ? static_cast<double>(work_files) / progress.seconds : 0;
  progress.remaining_s = mean > 0 ? static_cast<double>(progress.total - progress.done) / mean : -1;
  progress.limiting = limiting();
  reported_ns = at;
  reported_files = work_files;
  on_progress(progress);
}

namespace {

class SplitWriter {
 public:
  SplitWriter(IngestRun& run, const FrozenSplit& split, const std::string& directory)
      : run_(run), split_(split), directory_(directory) {}

  Status write();

 private:
  uint64_t cost(uint64_t item) const {
    uint64_t read_bytes = split_.entries[item].size_bytes;
    if (run_.options.late_checksums) read_bytes = std::min(read_bytes, uint64_t{data::kLateBegin});
    const auto size = static_cast<double>(read_bytes);
    return static_cast<uint64_t>(size * std::max(1.0, run_.list.stored_ratio)) + 512;
  }
  Status open_writer();
  std::vector<uint64_t> borders();
  void count_what_is_done(uint64_t begin);
  std::unique_ptr<OrderedWorkers> start_workers(uint64_t begin);
  Status take(uint64_t item, OrderedWorkers::Outcome outcome);
  Status end_transaction(uint64_t position, bool last);

  IngestRun& run_;
  const FrozenSplit& split_;
  const std::string& directory_;
  PartRange range_{0, split_.entries.size()};  // the entries that this call stores
  bool ends_inside_ = false;                   // range_ ends inside a transaction of a single ingest
  data::PixelSums sums_;                       // of the transaction, for a part's notes
  std::unique_ptr<data::DatasetWriter> writer_;
  std::vector<std::unique_ptr<ImageWorker>> image_workers_;
};

std::unique_ptr<OrderedWorkers> SplitWriter::start_workers(uint64_t begin) {
  const IngestOptions& options = run_.options;
  const int jobs = worker_threads(options);
  const uint64_t decode_every = std::max<uint64_t>(1, split_.entries.size() / kDecodedLinks);
  for (int i = 0; i < jobs; ++i)
    image_workers_.push_back(
        std::make_unique<ImageWorker>(options, run_.list.schema, run_.counters, run_.looks(), decode_every));
  OrderedWorkers::Job job;
  job.begin = begin;
  job.end = range_.end;
  job.window = options.window_bytes;
  job.cost = [this](uint64_t item) { return cost(item); };
  job.work = [this](int worker, uint64_t item) {
    return image_workers_[static_cast<size_t>(worker)]->process(run_.source, split_.entries[item], item);
  };
  return std::make_unique<OrderedWorkers>(jobs, std::move(job));
}

Status SplitWriter::take(uint64_t item, OrderedWorkers::Outcome outcome) {
  const data::SourceEntry& entry = split_.entries[item];
  const int64_t begin_ns = now_ns();
  if (outcome.ok()) {
    run_.images.add(static_cast<size_t>(&split_ - run_.list.splits.data()), writer_->samples(),
                    outcome->image_checksum, outcome->look, run_.fold_of(entry));
    DLPIPE_RETURN_IF_ERROR(writer_->add(*outcome));
    sums_.add(outcome->pixel_sums);
  } else if (!is_bad_file(outcome.status())) {
    return outcome.status();
  } else if (run_.options.on_error == OnError::kStop && !is_copy(entry)) {
    return bad_file_error("ingest", printable(entry.path), outcome.status());
  } else {
    DLPIPE_RETURN_IF_ERROR(writer_->skip(item, entry.path, outcome.status().message()));
    ++run_.progress.skipped;
  }
  run_.write_ns += now_ns() - begin_ns;
  ++run_.progress.done;
  ++run_.work_files;
  run_.progress.bytes_done += entry.size_bytes;
  return {};
}

Status SplitWriter::end_transaction(uint64_t position, bool last) {
  const int64_t begin_ns = now_ns();
  if (run_.part != nullptr && range_.begin < range_.end)
    DLPIPE_RETURN_IF_ERROR(run_.part->note(split_.name, {position, !last || !ends_inside_, sums_}));
  sums_ = {};
  Status status = last ? writer_->finish(position) : writer_->commit(position);
  run_.write_ns += now_ns() - begin_ns;
  return status;
}

Status SplitWriter::open_writer() {
  const IngestOptions& options = run_.options;
  DLPIPE_RETURN_IF_ERROR(drop_unbegun_environment(directory_));
  // After "map full", or if there is not enough space for the first map size, the user may give another one.
  const uint64_t map_bytes = options.map_bytes != 0 ? options.map_bytes : run_.list.map_bytes;
  auto writer = data::DatasetWriter::open(directory_, run_.list.schema, map_bytes);
  if (writer.status().code() == ErrorCode::kCorrupt)  // the same command would fail again
    return writer.status().with_context(
        concat("[ingest] ", directory_, " can't be continued; remove it to start over: "));
  DLPIPE_ASSIGN_OR_RETURN(writer_, std::move(writer));
  if (writer_->finished() || writer_->position() <= range_.end) return {};
  return Status(ErrorCode::kCorrupt,
                concat("[ingest] ", directory_, " contains more than its list; remove it and ingest again"));
}

/// Where transactions end: where they do in an ingest of all entries, and at the end of the range.
std::vector<uint64_t> SplitWriter::borders() {
  std::vector<uint64_t> all =
      run_.list.borders(split_, run_.options.commit_bytes, run_.options.commit_entries);
  ends_inside_ = !std::binary_search(all.begin(), all.end(), range_.end);
  std::erase_if(all, [&](uint64_t end) { return end <= range_.begin || end > range_.end; });
  if (ends_inside_ && range_.begin < range_.end) all.push_back(range_.end);
  return all;
}

void SplitWriter::count_what_is_done(uint64_t begin) {
  for (uint64_t i = range_.begin; i < begin; ++i) run_.progress.bytes_done += split_.entries[i].size_bytes;
  const auto done = static_cast<int64_t>(begin - range_.begin);
  run_.progress.done += done;
  run_.progress.skipped += done - writer_->samples();
}

Status SplitWriter::write() {
  const IngestOptions& options = run_.options;
  if (run_.part != nullptr) range_ = run_.part->range(split_.name);
  DLPIPE_RETURN_IF_ERROR(open_writer());
  run_.progress.split = split_.name;
  const uint64_t begin = writer_->finished() ? range_.end : std::max(range_.begin, writer_->position());
  count_what_is_done(begin);
  if (writer_->finished()) return {};

  if (run_.part != nullptr) run_.part->go_on(split_.name, writer_->position());
  const std::vector<uint64_t> borders = this->borders();
  auto border = std::upper_bound(borders.begin(), borders.end(), begin);
  if (border == borders.end()) return end_transaction(range_.end, true);
  const std::unique_ptr<OrderedWorkers> workers = start_workers(begin);
  for (uint64_t item = begin; item < range_.end; ++item) {
    DLPIPE_RETURN_IF_ERROR(take(item, workers->next()));
    if (item + 1 == *border) {
      DLPIPE_RETURN_IF_ERROR(end_transaction(*border, *border == range_.end));
      ++border;
    }
    run_.report(false);
    if (options.stop_requested && options.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[ingest] stopped after ", run_.progress.done, " of ",
                           counted(run_.progress.total, "file"), "; run the same command again to continue"));
  }
  run_.writer_wait_ns += workers->taker_wait_ns();
  return {};
}

}  // namespace

Status write_split(IngestRun& run, const FrozenSplit& split, const std::string& directory) {
  return SplitWriter(run, split, directory).write();
}

}  // namespace dlpipe::ingest
