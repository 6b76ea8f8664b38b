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

/// Numbers of parts, [begin, end) of as many as there are ranks.
struct Parts {
  int begin = 0;
  int end = 0;
};

/// Of `parts`, what `rank` keeps when it shares with the rank that differs in `bit`; the other keeps the rest.
Parts half_of(Parts parts, int rank, int bit) {
  const int middle = (parts.begin + parts.end) / 2;
  return (rank & bit) == 0 ? Parts{parts.begin, middle} : Parts{middle, parts.end};
}

/// The one part that is `rank`'s of `world`: the bits of its number in reverse, as halves are taken lowest bit first.
int part_number(int rank, int world) {
  Parts parts{0, world};
  for (int bit = 1; bit < world; bit <<= 1) parts = half_of(parts, rank, bit);
  return parts.begin;
}

/// `count` values halved again and again.
void cut_evenly(Collective::Cuts& cuts, Parts parts, size_t begin, size_t end) {
  cuts[static_cast<size_t>(parts.begin)] = begin;
  cuts[static_cast<size_t>(parts.end)] = end;
  if (parts.end - parts.begin == 1) return;
  const int middle_part = (parts.begin + parts.end) / 2;
  const size_t middle = begin + (end - begin) / 2;
  cut_evenly(cuts, {parts.begin, middle_part}, begin, middle);
  cut_evenly(cuts, {middle_part, parts.end}, middle, end);
}

/// Values in parts.
struct PartedValues {
  std::span<float> values;
  Collective::Cuts cuts;

  std::span<float> of(Parts parts) const {
    const size_t begin = cuts[static_cast<size_t>(parts.begin)], end = cuts[static_cast<size_t>(parts.end)];
    return values.subspan(begin, end - begin);
  }
};

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
Status reduce_scatter_on(Line& line, const PartedValues& values, std::vector<float>& scratch) {
  Parts parts{0, line.world()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Parts kept = half_of(parts, line.rank(), bit);
    const std::span<float> sum = values.of(kept);
    scratch.resize(sum.size());
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values.of(half_of(parts, peer, bit)), std::span(scratch)));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scratch[i];
    parts = kept;
  }
  return {};
}

/// What a rank has after each round of halving, all parts first.
std::vector<Parts> rounds_of(const Line& line) {
  std::vector<Parts> rounds = {{0, line.world()}};
  for (int bit = 1; bit < line.world(); bit <<= 1) rounds.push_back(half_of(rounds.back(), line.rank(), bit));
  return rounds;
}

Status all_gather_on(Line& line, const PartedValues& values) {
  std::vector<Parts> rounds = rounds_of(line);
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const Parts mine = rounds.back();
    rounds.pop_back();
    const Parts its = half_of(rounds.back(), peer, bit);
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values.of(mine), values.of(its)));
  }
  return {};
}

std::vector<BFloat16> packed(std::span<const float> values) {
  std::vector<BFloat16> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = BFloat16(values[i]);
  return halves;
}

/// reduce_scatter_on with bf16 on the line; every value is rounded already.
Status reduce_scatter_rounded_on(Line& line, const PartedValues& values) {
  Parts parts{0, line.world()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Parts kept = half_of(parts, line.rank(), bit);
    const std::vector<BFloat16> out = packed(values.of(half_of(parts, peer, bit)));
    const std::span<float> sum = values.of(kept);
    std::vector<BFloat16> in(sum.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = rounded_to_bf16(sum[i] + static_cast<float>(in[i]));
    parts = kept;
  }
  return {};
}

/// all_gather_on, the same.
Status all_gather_rounded_on(Line& line, const PartedValues& values) {
  std::vector<Parts> rounds = rounds_of(line);
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const std::vector<BFloat16> out = packed(values.of(rounds.back()));
    rounds.pop_back();
    const std::span<float> its = values.of(half_of(rounds.back(), peer, bit));
    std::vector<BFloat16> in(its.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < its.size(); ++i) its[i] = static_cast<float>(in[i]);
  }
  return {};
}

void round_to_wire(std::span<float> values, Wire wire) {
  if (wire != Wire::kBf16) return;
  for (float& value : values) value = rounded_to_bf16(value);
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
  return part_of(even_cuts(count));
}

Part Collective::part_of(const Cuts& cuts) const {
  const auto mine = static_cast<size_t>(part_number(rank(), world()));
  return {cuts[mine], cuts[mine + 1]};
}

Collective::Cuts Collective::even_cuts(size_t count) const {
  Cuts cuts(static_cast<size_t>(world()) + 1);
  cut_evenly(cuts, {0, world()}, 0, count);
  return cuts;
}

Collective::Handle Collective::all_reduce(std::span<float> values, std::string what, Wire wire) {
  round_to_wire(values, wire);
  return worker_->ask(std::move(what),
                      [parted = PartedValues{values, even_cuts(values.size())}, wire](
                          Line& line, std::vector<float>& scratch) -> Status {
                        if (wire == Wire::kBf16) {
                          DLPIPE_RETURN_IF_ERROR(reduce_scatter_rounded_on(line, parted));
                          return all_gather_rounded_on(line, parted);
                        }
                        DLPIPE_RETURN_IF_ERROR(reduce_scatter_on(line, parted, scratch));
                        return all_gather_on(line, parted);
                      });
}

Collective::Handle Collective::reduce_scatter(std::span<float> values, const Cuts& cuts, std::string what,
                                              Wire wire) {
  round_to_wire(values, wire);
  return worker_->ask(std::move(what),
                      [parted = PartedValues{values, cuts}, wire](Line& line, std::vector<float>& scratch) {
                        return wire == Wire::kBf16 ? reduce_scatter_rounded_on(line, parted)
                                                   : reduce_scatter_on(line, parted, scratch);
                      });
}

Collective::Handle Collective::all_gather(std::span<float> values, const Cuts& cuts, std::string what) {
  return worker_->ask(std::move(what),
                      [parted = PartedValues{values, cuts}](Line& line, std::vector<float>&) {
                        return all_gather_on(line, parted);
                      });
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
