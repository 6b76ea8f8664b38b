#include "serve/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/counters.h"

namespace dlpipe::serve {

struct Scheduler::Waiting {
  Job job;
  Clock::time_point arrival;
  size_t taken = 0, answered = 0;  // of its images
  uint64_t bytes = 0;
  JobResult result;
};

struct Scheduler::Batch {
  struct Row {
    std::shared_ptr<Waiting> job;
    size_t image;
  };
  std::shared_ptr<const ServedModel> model;
  std::vector<Row> rows;
  std::vector<std::shared_ptr<Waiting>> expired;
  bool gives_up = false;
};

Scheduler::Scheduler(const Options& options) : options_(options), thread_([this] { work(); }) {}

Scheduler::~Scheduler() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Scheduler::submit(Job job) {
  auto waiting = std::make_shared<Waiting>();
  const auto images = static_cast<int64_t>(job.images.size());
  for (const run::ImageFile& image : job.images) waiting->bytes += image.bytes ? image.bytes->size() : 0;
  waiting->arrival = Clock::now();
  waiting->result.predictions.resize(job.images.size());
  waiting->job = std::move(job);
  {
    const MutexLock lock(mutex_);
    if (stops_ || waiting_.load() + images > options_.max_images ||
        (bytes_ > 0 && bytes_ + waiting->bytes > options_.max_bytes))
      return false;
    waiting_ += images;
    bytes_ += waiting->bytes;
    const Clock::time_point deadline = waiting->job.deadline;
    queue_.emplace(deadline, std::move(waiting));
  }
  changed_.notify_all();
  return true;
}

void Scheduler::hurry() {
  {
    const MutexLock lock(mutex_);
    hurries_ = true;
  }
  changed_.notify_all();
}

void Scheduler::give_up() {
  {
    const MutexLock lock(mutex_);
    gives_up_ = true;
  }
  changed_.notify_all();
}

double Scheduler::expected_wait_s() const {
  return static_cast<double>(waiting_.load()) * seconds_per_image_.load();
}

bool Scheduler::take(Batch& batch) {
  batch = {};
  MutexLock lock(mutex_);
  for (;;) {
    while (queue_.empty() && !stops_) lock.wait(changed_);
    if (queue_.empty()) return false;
    const Clock::time_point now = Clock::now();
    batch.gives_up = gives_up_;
    while (!queue_.empty() && (gives_up_ || queue_.begin()->first < now)) {
      batch.expired.push_back(queue_.begin()->second);
      queue_.erase(queue_.begin());
    }
    if (!batch.expired.empty()) return true;
    // The first job chooses the model; the batch has its images, and those of the next jobs for the same model.
    const auto model = queue_.begin()->second->job.model;
    int64_t there = 0;
    Clock::time_point first = Clock::time_point::max();
    for (const auto& [deadline, job] : queue_) {
      if (job->job.model != model) continue;
      there += static_cast<int64_t>(job->job.images.size() - job->taken);
      first = std::min(first, job->arrival);
      if (there >= options_.max_batch) break;
    }
    const Clock::time_point until = std::min(first + options_.max_delay, queue_.begin()->first);
    if (there < options_.max_batch && now < until && !stops_ && !hurries_) {
      lock.wait_until(changed_, until);
      continue;
    }
    batch.model = model;
    for (auto at = queue_.begin(); at != queue_.end();) {
      const std::shared_ptr<Waiting>& job = at->second;
      if (job->job.model == model) {
        while (job->taken < job->job.images.size() &&
               static_cast<int64_t>(batch.rows.size()) < options_.max_batch)
          batch.rows.push_back({job, job->taken++});
        if (static_cast<int64_t>(batch.rows.size()) == options_.max_batch &&
            job->taken < job->job.images.size())
          break;
        at = queue_.erase(at);
      } else {
        ++at;
      }
    }
    return true;
  }
}

void Scheduler::finish(Waiting& job) {
  {
    const MutexLock lock(mutex_);
    waiting_ -= static_cast<int64_t>(job.job.images.size());
    bytes_ -= job.bytes;
  }
  job.job.done(std::move(job.result));
}

void Scheduler::run(Batch& batch) {
  std::vector<run::ImageFile> files;
  const Clock::time_point begin = Clock::now();
  for (const Batch::Row& row : batch.rows) {
    if (row.image == 0) row.job->result.queue_ns = std::chrono::nanoseconds(begin - row.job->arrival).count();
    files.push_back(std::move(row.job->job.images[row.image]));
  }
  Status status;
  size_t next = 0;
  try {
    batch.model->predictor->predict_batch(files, static_cast<int64_t>(files.size()),
                                          [&](const run::Prediction& one) {
                                            const Batch::Row& row = batch.rows[next++];
                                            row.job->result.predictions[row.image] = one;
                                            return true;
                                          });
  } catch (...) {
    status = status_from_current_exception("serve");
  }
  const run::Predictor::BatchTimes times = batch.model->predictor->last_times();
  const auto rows = static_cast<int64_t>(batch.rows.size());
  ModelCounters& counters = *batch.model->counters;
  ++counters.batches;
  counters.images += rows;
  counters.decode_ns += times.images_ns;
  counters.model_ns += times.model_ns;
  const double taken =
      std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(rows);
  seconds_per_image_ = seconds_per_image_.load() == 0 ? taken : 0.9 * seconds_per_image_.load() + 0.1 * taken;
  for (const Batch::Row& row : batch.rows) {
    JobResult& result = row.job->result;
    if (!status.ok()) result.status = status;
    result.decode_ns += times.images_ns / rows;
    result.model_ns += times.model_ns / rows;
    if (++row.job->answered == result.predictions.size()) finish(*row.job);
  }
}

void Scheduler::work() {
  Batch batch;
  while (take(batch)) {
    for (const auto& job : batch.expired) {
      // Images of it that are in earlier batches have been answered: this thread runs one batch after another.
      job->result.status = Status(ErrorCode::kCancelled,
                                  batch.gives_up ? "[serve] the server stops"
                                                 : "[serve] the request waited longer than its time limit");
      job->result.queue_ns = std::chrono::nanoseconds(Clock::now() - job->arrival).count();
      finish(*job);
    }
    if (!batch.rows.empty()) run(batch);
  }
}

}  // namespace dlpipe::serve
