#include "dlpipe/engine/collective/collective.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine {

using Part = Collective::Part;

struct Collective::Handle::State {
  Mutex mutex;
  std::condition_variable done_changed;
  bool done DLPIPE_GUARDED_BY(mutex) = false;
  Status status DLPIPE_GUARDED_BY(mutex);

  void finish(Status outcome) {
    const MutexLock lock(mutex);
    status = std::move(outcome);
    done = true;
    done_changed.notify_all();
  }
};

Status Collective::Handle::wait() {
  if (state_ == nullptr) return {};
  const SpanScope span(Span::kCollective);
  MutexLock lock(state_->mutex);
  while (!state_->done) lock.wait(state_->done_changed);
  return state_->status;
}

// ------------------------------------------------------------------------------------------------- the algorithms

namespace {

bool is_power_of_two(int n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/// Of `part`, what `rank` keeps when it shares with the rank that differs in `bit`; the other keeps the rest.
Part half_of(Part part, int rank, int bit) {
  const size_t middle = part.begin + (part.end - part.begin) / 2;
  return (rank & bit) == 0 ? Part{part.begin, middle} : Part{middle, part.end};
}

std::span<float> values_of(std::span<float> values, Part part) {
  return values.subspan(part.begin, part.end - part.begin);
}

/// Counts what it sends.
class Line {
 public:
  explicit Line(Transport& transport) : transport_(transport) {}
  int rank() const { return transport_.rank(); }
  int world() const { return transport_.world(); }
  Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
    DLPIPE_RETURN_IF_ERROR(transport_.exchange(peer, out, in));
    bytes_sent_ += static_cast<int64_t>(out.size());
    return {};
  }
  Status exchange(int peer, std::span<const float> out, std::span<float> in) {
    return exchange(peer, std::as_bytes(out), std::as_writable_bytes(in));
  }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  Transport& transport_;
  int64_t bytes_sent_ = 0;
};

// Neighbours first, so that sums follow the tree over ranks: addition commutes, so both partners' halves are what the
// rank with the smaller number, as the left child, would compute.
Status reduce_scatter_on(Line& line, std::span<float> values, std::vector<float>& scratch) {
  Part part{0, values.size()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Part kept = half_of(part, line.rank(), bit);
    const Part given = half_of(part, peer, bit);
    const std::span<float> sum = values_of(values, kept);
    scratch.resize(sum.size());
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values_of(values, given), std::span(scratch)));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scratch[i];
    part = kept;
  }
  return {};
}

Status all_gather_on(Line& line, std::span<float> values) {
  std::vector<Part> parts = {{0, values.size()}};
  for (int bit = 1; bit < line.world(); bit <<= 1) parts.push_back(half_of(parts.back(), line.rank(), bit));
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const Part mine = parts.back();
    parts.pop_back();
    const Part its = half_of(parts.back(), peer, bit);
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values_of(values, mine), values_of(values, its)));
  }
  return {};
}

std::vector<BFloat16> packed(std::span<const float> values) {
  std::vector<BFloat16> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = BFloat16(values[i]);
  return halves;
}

/// reduce_scatter_on and all_gather_on with bf16 on the line; every value is rounded already.
Status all_reduce_rounded_on(Line& line, std::span<float> values) {
  std::vector<Part> parts = {{0, values.size()}};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Part kept = half_of(parts.back(), line.rank(), bit);
    const std::vector<BFloat16> out = packed(values_of(values, half_of(parts.back(), peer, bit)));
    const std::span<float> sum = values_of(values, kept);
    std::vector<BFloat16> in(sum.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = rounded_to_bf16(sum[i] + static_cast<float>(in[i]));
    parts.push_back(kept);
  }
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const std::vector<BFloat16> out = packed(values_of(values, parts.back()));
    parts.pop_back();
    const std::span<float> its = values_of(values, half_of(parts.back(), peer, bit));
    std::vector<BFloat16> in(its.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < its.size(); ++i) its[i] = static_cast<float>(in[i]);
  }
  return {};
}

/// From `root` to twice as many in each round.
Status broadcast_on(Line& line, std::span<std::byte> bytes, int root) {
  const int place = line.rank() ^ root;
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    if (place >= 2 * bit) continue;
    const int peer = line.rank() ^ bit;
    const bool sends = (place & bit) == 0;
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, sends ? bytes : std::span<std::byte>(), sends ? std::span<std::byte>() : bytes));
  }
  return {};
}

void append_size(std::string& to, uint64_t size) {
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
}

uint64_t take_size(std::string_view& from) {
  uint64_t size = 0;
  std::memcpy(&size, from.data(), sizeof size);
  from.remove_prefix(sizeof size);
  return size;
}

/// Blocks of ranks that grow from both sides: each round doubles what a rank has, in the order of ranks.
Status gather_on(Line& line, std::string_view mine, std::vector<std::string>& all) {
  std::string block;
  append_size(block, mine.size());
  block += mine;
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const uint64_t size = block.size();
    uint64_t its_size = 0;
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, std::as_bytes(std::span(&size, 1)),
                                         std::as_writable_bytes(std::span(&its_size, 1))));
    std::string its(its_size, '\0');
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, std::as_bytes(std::span(block.data(), block.size())),
                                         std::as_writable_bytes(std::span(its.data(), its.size()))));
    block = (line.rank() & bit) == 0 ? block + its : its + block;
  }
  std::string_view rest = block;
  while (!rest.empty()) {
    const uint64_t size = take_size(rest);
    all.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return {};
}

Status barrier_on(Line& line) {
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const std::byte out{};
    std::byte in{};
    DLPIPE_RETURN_IF_ERROR(line.exchange(line.rank() ^ bit, std::span(&out, 1), std::span(&in, 1)));
  }
  return {};
}

}  // namespace

// --------------------------------------------------------------------------------------------------- the thread

// Owns the communication thread and the transport. Once an operation has failed, the others answer its error too.
class Collective::Worker {
 public:
  using Operation = std::function<Status(Line& line, std::vector<float>& scratch)>;

  ~Worker() {
    if (!thread_.joinable()) return;
    {
      const MutexLock lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  Status start(const Open& open) {
    auto opened = std::make_shared<Handle::State>();
    thread_ = std::thread([this, open, opened] { run(open, *opened); });
    const Status status = Handle(opened).wait();
    return status;
  }

  Handle ask(std::string what, Operation operation) {
    auto state = std::make_shared<Handle::State>();
    if (world_ == 1) {
      state->finish({});
      return Handle(std::move(state));
    }
    const MutexLock lock(mutex_);
    jobs_.push_back({std::move(what), std::move(operation), state});
    changed_.notify_all();
    return Handle(std::move(state));
  }

  void abort(std::string_view reason) noexcept {
    try {
      const MutexLock lock(mutex_);
      if (abort_reason_.empty()) abort_reason_ = reason.empty() ? "unknown" : std::string(reason);
      if (transport_ != nullptr) transport_->stop_waiting();
      changed_.notify_all();
    } catch (...) {  // no memory for the reason: the others notice by their timeout
    }
  }

  Status close() {
    auto state = std::make_shared<Handle::State>();
    {
      const MutexLock lock(mutex_);
      closing_ = state;
      changed_.notify_all();
    }
    return Handle(state).wait();
  }

  bool was_told() const { return was_told_; }
  int rank() const { return rank_; }
  int world() const { return world_; }
  CollectiveStats stats() const {
    return {operations_.load(std::memory_order_relaxed), bytes_sent_.load(std::memory_order_relaxed),
            busy_ns_.load(std::memory_order_relaxed)};
  }

 private:
  struct Job {
    std::string what;
    Operation operation;
    std::shared_ptr<Handle::State> state;
  };

  void run(const Open& open, Handle::State& opened) {
    try {
      Result<std::unique_ptr<Transport>> transport = open();
      if (!transport.ok()) return opened.finish(transport.status());
      rank_ = (*transport)->rank();
      world_ = (*transport)->world();
      if (!is_power_of_two(world_)) {
        return opened.finish(
            {ErrorCode::kMisuse,
             concat("[ranks] ", world_, " processes; start 1, 2, 4, 8 or another power of two")});
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

  void serve(Transport& transport) {
    MutexLock lock(mutex_);
    while (true) {
      while (jobs_.empty() && !ending_ && closing_ == nullptr && abort_reason_.empty()) lock.wait(changed_);
      if (!abort_reason_.empty() && failed_.ok()) {
        failed_ = Status(ErrorCode::kCancelled, "[ranks] this rank has stopped: " + abort_reason_);
        transport.abort(abort_reason_);
      }
      if (!jobs_.empty()) {
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        work(transport, job);
        lock.lock();
      } else if (closing_ != nullptr) {
        closing_->finish(failed_.ok() ? transport.close() : failed_);
        closing_ = nullptr;
      } else if (ending_) {
        return;
      } else if (!failed_.ok()) {
        lock.wait(changed_);  // aborted: jobs still come, and get their answer
      }
    }
  }

  void work(Transport& transport, Job& job) {
    if (!failed_.ok()) return job.state->finish(failed_);
    const int64_t begin_ns = now_ns();
    Line line(transport);
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
      failed_ =
          status.with_context(concat("[ranks] rank ", rank_, " of ", world_, " waited for ", job.what, ": "));
      was_told_ = transport.was_told();
      transport.abort(status.message());
      status = failed_;
    }
    job.state->finish(std::move(status));
  }

  int rank_ = 0;
  int world_ = 1;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_ DLPIPE_GUARDED_BY(mutex_);
  bool ending_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Handle::State> closing_ DLPIPE_GUARDED_BY(mutex_);
  std::string abort_reason_ DLPIPE_GUARDED_BY(mutex_);
  Transport* transport_ DLPIPE_GUARDED_BY(mutex_) = nullptr;  // the thread's, while it serves
  Status failed_;                                             // the thread's
  std::vector<float> scratch_;                                // the thread's
  std::atomic<int64_t> operations_{0}, bytes_sent_{0}, busy_ns_{0};
  std::atomic<bool> was_told_{false};
  std::thread thread_;
};

Result<std::unique_ptr<Collective>> Collective::create(const Open& open) {
  auto worker = std::make_unique<Worker>();
  DLPIPE_RETURN_IF_ERROR(worker->start(open));
  return std::unique_ptr<Collective>(new Collective(std::move(worker)));
}

Collective::Collective(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
Collective::~Collective() = default;

int Collective::rank() const {
  return worker_->rank();
}
int Collective::world() const {
  return worker_->world();
}
CollectiveStats Collective::stats() const {
  return worker_->stats();
}
void Collective::abort(std::string_view reason) noexcept {
  worker_->abort(reason);
}
bool Collective::was_told() const {
  return worker_->was_told();
}
Status Collective::close() {
  return worker_->close();
}

Part Collective::part_of(size_t count) const {
  Part part{0, count};
  for (int bit = 1; bit < world(); bit <<= 1) part = half_of(part, rank(), bit);
  return part;
}

Collective::Handle Collective::all_reduce(std::span<float> values, std::string what, Wire wire) {
  if (wire == Wire::kBf16) {
    for (float& value : values) value = rounded_to_bf16(value);
    return worker_->ask(std::move(what), [values](Line& line, std::vector<float>&) {
      return all_reduce_rounded_on(line, values);
    });
  }
  return worker_->ask(std::move(what), [values](Line& line, std::vector<float>& scratch) -> Status {
    DLPIPE_RETURN_IF_ERROR(reduce_scatter_on(line, values, scratch));
    return all_gather_on(line, values);
  });
}

Collective::Handle Collective::reduce_scatter(std::span<float> values, std::string what) {
  return worker_->ask(std::move(what), [values](Line& line, std::vector<float>& scratch) {
    return reduce_scatter_on(line, values, scratch);
  });
}

Collective::Handle Collective::all_gather(std::span<float> values, std::string what) {
  return worker_->ask(std::move(what),
                      [values](Line& line, std::vector<float>&) { return all_gather_on(line, values); });
}

Collective::Handle Collective::broadcast(std::span<std::byte> bytes, int root, std::string what) {
  return worker_->ask(std::move(what), [bytes, root](Line& line, std::vector<float>&) {
    return broadcast_on(line, bytes, root);
  });
}

Collective::Handle Collective::send(int peer, std::span<const std::byte> bytes, std::string what) {
  return worker_->ask(std::move(what), [bytes, peer](Line& line, std::vector<float>&) {
    return line.exchange(peer, bytes, std::span<std::byte>());
  });
}

Collective::Handle Collective::receive(int peer, std::span<std::byte> bytes, std::string what) {
  return worker_->ask(std::move(what), [bytes, peer](Line& line, std::vector<float>&) {
    return line.exchange(peer, std::span<const std::byte>(), bytes);
  });
}

Collective::Handle Collective::barrier(std::string what) {
  return worker_->ask(std::move(what), [](Line& line, std::vector<float>&) { return barrier_on(line); });
}

Result<std::vector<std::string>> Collective::gather(std::string_view mine, std::string what) {
  if (world() == 1) return std::vector<std::string>{std::string(mine)};
  std::vector<std::string> all;
  Handle handle = worker_->ask(
      std::move(what), [mine, &all](Line& line, std::vector<float>&) { return gather_on(line, mine, all); });
  DLPIPE_RETURN_IF_ERROR(handle.wait());
  return all;
}

}  // namespace dlpipe::engine
