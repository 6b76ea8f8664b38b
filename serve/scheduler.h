// Runs the images of all requests: one thread forms batches of them and calls the models, whose decoding and kernels use all
// threads of the engine.
//
// The job with the earliest deadline chooses the model of a batch. A batch waits for more images until its first one has waited
// for the maximum delay. The bits of an answer don't depend on the other images of its batch (docs/decisions/077-batch-invariance.md).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/predictor.h"
#include "serve/models.h"

namespace dlpipe::serve {

using Clock = std::chrono::steady_clock;

struct JobResult {
  Status status;  // of the whole job: kCancelled if its deadline passed
  std::vector<run::Prediction> predictions;
  int64_t queue_ns = 0, decode_ns = 0, model_ns = 0;
};

struct Job {
  std::shared_ptr<const ServedModel> model;
  std::vector<run::ImageFile> images;  // at least one
  Clock::time_point deadline;
  std::function<void(JobResult&&)> done;  // called once, on the scheduler's thread
};

class Scheduler {
 public:
  struct Options {
    int64_t max_batch = 8;
    std::chrono::microseconds max_delay{0};
    int64_t max_images = 1024;               // that wait
    uint64_t max_bytes = uint64_t{1} << 29;  // of images that wait
  };
  explicit Scheduler(const Options& options);
  /// Answers all accepted jobs first.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Any thread. False if the queue is full; `done` is then not called.
  bool submit(Job job);
  /// From now on batches don't wait for more images.
  void hurry();
  /// From now on jobs get kCancelled instead of predictions, apart from those of the batch that runs.
  void give_up();
  /// The images that wait.
  int64_t waiting() const { return waiting_.load(); }
  /// An estimate of how long a new image would wait, in seconds.
  double expected_wait_s() const;

 private:
  struct Waiting;
  struct Batch;
  void work();
  /// Takes the next batch, waiting for it; false at the end.
  bool take(Batch& batch);
  void run(Batch& batch);
  void finish(Waiting& job);

  Options options_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::shared_ptr<Waiting>> queue_ DLPIPE_GUARDED_BY(mutex_);  // by deadline
  uint64_t bytes_ DLPIPE_GUARDED_BY(mutex_) = 0;
  bool stops_ DLPIPE_GUARDED_BY(mutex_) = false;
  bool hurries_ DLPIPE_GUARDED_BY(mutex_) = false;
  bool gives_up_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::atomic<int64_t> waiting_{0};
  std::atomic<double> seconds_per_image_{0};
  std::thread thread_;
};

}  // namespace dlpipe::serve
