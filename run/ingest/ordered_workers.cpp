#include "dlpipe/run/ingest/ordered_workers.h"

#include <utility>

#include "dlpipe/base/counter.h"

namespace dlpipe::ingest {

OrderedWorkers::OrderedWorkers(int workers, Job job) : job_(std::move(job)), next_item_(job_.begin) {
  threads_ = std::make_unique<Threads>("ingest", workers, [this](int worker) { work(worker); });
  if (threads_->count() == 0) fail(threads_->join());
}

OrderedWorkers::~OrderedWorkers() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  window_moved_.notify_all();
  (void)threads_->join();
}

void OrderedWorkers::fail(const Status& status) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = status;
  stopping_ = true;
  window_moved_.notify_all();
  run_done_.notify_one();
}

OrderedWorkers::Run* OrderedWorkers::claim(MutexLock& lock) {
  constexpr uint64_t kRunCost = 64 << 10;
  constexpr uint64_t kRunItems = 64;
  while (!stopping_ && next_item_ != job_.end && !runs_.empty() &&
         cost_in_flight_ + job_.cost(next_item_) > job_.window)
    lock.wait(window_moved_);
  if (stopping_ || next_item_ == job_.end) return nullptr;
  Run& run = runs_.emplace_back();
  run.begin = run.end = next_item_;
  while (run.end < job_.end && run.end - run.begin < kRunItems && run.cost < kRunCost) {
    const uint64_t cost = job_.cost(run.end);
    if (run.end > run.begin && cost_in_flight_ + run.cost + cost > job_.window) break;
    run.cost += cost;
    ++run.end;
  }
  next_item_ = run.end;
  cost_in_flight_ += run.cost;
  return &run;
}

void OrderedWorkers::work(int worker) {
  try {
    work_until_done(worker);
  } catch (...) {  // no memory for outcomes; the taker would wait for them for ever
    fail(status_from_current_exception("ingest"));
  }
}

void OrderedWorkers::work_until_done(int worker) {
  MutexLock lock(mutex_);
  while (Run* run = claim(lock)) {
    const uint64_t begin = run->begin;
    const uint64_t end = run->end;
    lock.unlock();
    std::vector<Outcome> outcomes;
    for (uint64_t item = begin; item < end; ++item) outcomes.push_back(job_.work(worker, item));
    lock.lock();
    run->outcomes = std::move(outcomes);
    run->done = true;
    if (run == &runs_.front()) run_done_.notify_one();
  }
}

OrderedWorkers::Outcome OrderedWorkers::next() {
  if (taken_ == taking_.outcomes.size()) {
    MutexLock lock(mutex_);
    cost_in_flight_ -= taking_.cost;
    taking_ = Run();
    taken_ = 0;
    window_moved_.notify_all();
    const int64_t begin_ns = now_ns();
    while (failure_.ok() && (runs_.empty() || !runs_.front().done)) lock.wait(run_done_);
    taker_wait_ns_ += now_ns() - begin_ns;
    if (!failure_.ok()) return failure_;
    taking_ = std::move(runs_.front());
    runs_.pop_front();
  }
  return std::move(taking_.outcomes[taken_++]);
}

}  // namespace dlpipe::ingest
