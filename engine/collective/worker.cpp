#include "dlpipe/engine/collective/worker.h"

#include <bit>
#include <utility>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine {

static Status stopped(const std::string& reason) {
  return {ErrorCode::kCancelled, "[ranks] this rank has stopped: " + reason};
}

Collective::Worker::~Worker() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status Collective::Worker::start(const Open& open) {
  auto opened = std::make_shared<Handle::State>();
  thread_ = std::thread([this, open, opened] { run(open, *opened); });
  return Handle(opened).wait();
}

Collective::Handle Collective::Worker::ask(const RankGroup& group, std::string what, Operation operation) {
  auto state = std::make_shared<Handle::State>();
  if (group.world() == 1) {
    state->finish({});
    return Handle(std::move(state));
  }
  const MutexLock lock(mutex_);
  jobs_.push_back({group, std::move(what), std::move(operation), state});
  changed_.notify_all();
  return Handle(std::move(state));
}

void Collective::Worker::abort(std::string_view reason) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason.empty() ? "unknown" : std::string(reason);
    if (transport_ != nullptr) transport_->stop_waiting();
    changed_.notify_all();
  } catch (...) {  // no memory for the reason: the others notice by their timeout
  }
}

Status Collective::Worker::close() {
  auto state = std::make_shared<Handle::State>();
  {
    const MutexLock lock(mutex_);
    closing_ = state;
    changed_.notify_all();
  }
  return Handle(state).wait();
}

void Collective::Worker::run(const Open& open, Handle::State& opened) {
  try {
    Result<std::unique_ptr<Transport>> transport = open();
    if (!transport.ok()) return opened.finish(transport.status());
    rank_ = (*transport)->rank();
    world_ = (*transport)->world();
    if (world_ < 1 || !std::has_single_bit(static_cast<unsigned>(world_))) {
      return opened.finish(misuse("ranks", world_, " processes; start 1, 2, 4, 8 or another power of two"));
    }
    {
      const MutexLock lock(mutex_);
      transport_ = transport->get();
    }
    opened.finish({});
    serve(**transport);
    const MutexLock lock(mutex_);
    transport_ = nullptr;
  } catch (...) {
    opened.finish(status_from_current_exception("ranks"));
  }
}

void Collective::Worker::serve(Transport& transport) {
  MutexLock lock(mutex_);
  while (true) {
    while (jobs_.empty() && !ending_ && closing_ == nullptr && abort_reason_.empty()) lock.wait(changed_);
    if (!abort_reason_.empty() && failed_.ok()) {
      failed_ = stopped(abort_reason_);
      transport.abort(abort_reason_);
    }
    if (!jobs_.empty()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      work(transport, job);
      lock.lock();
    } else if (closing_ != nullptr) {
      const std::shared_ptr<Handle::State> closing = std::exchange(closing_, nullptr);
      lock.unlock();  // it may wait for peers, and abort() ends that
      closing->finish(failed_.ok() ? transport.close() : failed_);
      lock.lock();
    } else if (ending_) {
      return;
    } else if (!failed_.ok()) {
      lock.wait(changed_);  // aborted: jobs still come, and get their answer
    }
  }
}

void Collective::Worker::work(Transport& transport, Job& job) {
  if (!failed_.ok()) return job.state->finish(failed_);
  const int64_t begin_ns = now_ns();
  Line line(transport, job.group);
  Status status;
  try {
    status = job.operation(line, scratch_);
  } catch (...) {
    status = status_from_current_exception("ranks");
  }
  busy_ns_ += now_ns() - begin_ns;
  bytes_sent_ += line.bytes_sent();
  ++operations_;
  if (!status.ok()) {
    std::string reason;  // why this rank stopped itself amid the exchange
    {
      const MutexLock lock(mutex_);
      reason = abort_reason_;
    }
    failed_ = reason.empty() ? status.with_context(concat("[ranks] rank ", rank_, " of ", world_,
                                                          " waited for ", job.what, ": "))
                             : stopped(reason);
    was_told_ = transport.was_told();
    transport.abort(reason.empty() ? status.message() : std::string_view(reason));
    status = failed_;
  }
  job.state->finish(std::move(status));
}

}  // namespace dlpipe::engine
