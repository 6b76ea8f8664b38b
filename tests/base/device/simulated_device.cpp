#include "tests/base/device/simulated_device.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "base/text.h"

namespace dlpipe {

namespace {

// Set once, waited for by many.
class Mark {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    time_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  std::chrono::steady_clock::time_point time() {
    const std::lock_guard lock(mutex_);
    return time_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  bool done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point time_;
};

uint64_t hash_of(const void* from, size_t bytes) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto* data = static_cast<const uint8_t*>(from);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ data[i]) * 1099511628211u;
  return hash;
}

}  // namespace

struct SimulatedDevice::CountedEvent final : Event {
  std::shared_ptr<Mark> mark;        // of the last record
  Clock clock;                       // what is done when it is reached
  std::chrono::nanoseconds time{0};  // steered
};

class SimulatedDevice::ThreadStream final : public Stream {
 public:
  ThreadStream(SimulatedDevice& owner, int stream_id)
      : device(owner), id(stream_id), thread_([this] { run(); }) {}
  ~ThreadStream() override {
    put(nullptr);
    thread_.join();
  }
  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    filled_.notify_one();
  }

  void* native() const override { return const_cast<ThreadStream*>(this); }

  SimulatedDevice& device;
  // Under the device's lock.
  const int id;
  Clock clock;                       // what is done when everything now in the queue is
  std::chrono::nanoseconds time{0};  // steered: when that is
  struct Captured {
    std::function<void(Stream&)> launch;
    Event* event = nullptr;  // or it is recorded
    const Event* captured = nullptr;
  };
  std::vector<Captured> captured;

 private:
  void run() {
    while (true) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [&] { return !queue_.empty(); });
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      if (work == nullptr) return;
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

/// Another's, by its native().
class SimulatedDevice::BorrowedStream final : public Stream {
 public:
  explicit BorrowedStream(void* native) : native_(native) {}
  void* native() const override { return native_; }

 private:
  void* const native_;
};

SimulatedDevice::ThreadStream& SimulatedDevice::thread_of(Stream& stream) {
  return *static_cast<ThreadStream*>(stream.native());
}

SimulatedDevice& SimulatedDevice::of(Stream& stream) {
  return thread_of(stream).device;
}

SimulatedDevice::SimulatedDevice(std::chrono::microseconds copy_time, uint64_t seed)
    : copy_time_(copy_time), random_(seed, 0) {}

SimulatedDevice::~SimulatedDevice() = default;

void SimulatedDevice::join(Clock& into, const Clock& other) {
  for (const auto& [stream, time] : other) into[stream] = std::max(into[stream], time);
}

void SimulatedDevice::report(const std::string& violation) {
  if (violations_.size() < 1000) violations_.push_back(violation);
}

std::vector<std::string> SimulatedDevice::take_violations() {
  const std::lock_guard lock(mutex_);
  return std::exchange(violations_, {});
}

std::chrono::microseconds SimulatedDevice::delay() {
  return std::chrono::microseconds(
      static_cast<int64_t>(2.0 * random_.uniform_double() * static_cast<double>(copy_time_.count())));
}

Result<void*> SimulatedDevice::take(size_t bytes, bool pinned) {
  if (bytes_held + static_cast<int64_t>(bytes) > memory_bytes)
    return Status(ErrorCode::kOutOfMemory, concat("[device] ", human_bytes(bytes), " asked of simulated"));
  constexpr size_t kAlign = GuardedMemory::kAlign;
  const size_t rounded = std::max(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  void* const memory = pinned ? std::aligned_alloc(kAlign, rounded) : memory_.take(rounded);
  {
    const GuardedMemory::Open open(memory_);
    std::memset(memory, kFresh, rounded);
  }
  bytes_held += static_cast<int64_t>(bytes);
  const std::lock_guard lock(mutex_);
  if (!capturing_.empty()) report("an allocation in a capture");
  allocations_[reinterpret_cast<uintptr_t>(memory)] = {bytes, pinned, {}};
  return memory;
}

void SimulatedDevice::give(void* memory, size_t bytes, bool pinned) noexcept {
  if (memory == nullptr) return;
  host_writes({memory, bytes});
  bytes_held -= static_cast<int64_t>(bytes);
  {
    const std::lock_guard lock(mutex_);
    allocations_.erase(reinterpret_cast<uintptr_t>(memory));
  }
  {
    const GuardedMemory::Open open(memory_);
    std::memset(memory, kFreed, bytes);
  }
  pinned ? std::free(memory) : memory_.give(memory);
}

SimulatedDevice::Allocation* SimulatedDevice::find(const Range& range, uintptr_t* base) {
  const auto begin = reinterpret_cast<uintptr_t>(range.begin);
  auto after = allocations_.upper_bound(begin);
  if (after == allocations_.begin()) return nullptr;
  --after;
  if (begin + range.bytes > after->first + after->second.bytes) return nullptr;
  *base = after->first;
  return &after->second;
}

void SimulatedDevice::access(ThreadStream& stream, const Range& range, bool writes, const std::string& what) {
  uintptr_t base = 0;
  Allocation* const allocation = find(range, &base);
  if (allocation == nullptr) return report(concat(what, " outside of any allocation"));
  const auto begin = reinterpret_cast<uintptr_t>(range.begin);
  const uintptr_t end = begin + range.bytes;
  std::erase_if(allocation->accesses, [&](const Access& a) { return a.time <= host_[a.stream]; });
  for (const Access& before : allocation->accesses) {
    const bool meet = before.begin < end && begin < before.end && (writes || before.writes);
    if (meet && before.time > stream.clock[before.stream])
      report(concat(what, " without waiting for ", before.what));
  }
  allocation->accesses.push_back({stream.id, stream.clock[stream.id], begin, end, writes, what});
}

void SimulatedDevice::host_accesses(const Range& range, bool writes) {
  const std::lock_guard lock(mutex_);
  uintptr_t base = 0;
  Allocation* const allocation = find(range, &base);
  const std::string what = writes ? "the host writes or frees" : "the host reads";
  if (allocation == nullptr) return report(concat(what, " outside of any allocation"));
  const auto begin = reinterpret_cast<uintptr_t>(range.begin);
  for (const Access& before : allocation->accesses) {
    const bool meet = before.begin < begin + range.bytes && begin < before.end && (writes || before.writes);
    if (meet && before.time > host_[before.stream])
      report(concat(what, " memory without waiting for ", before.what));
  }
}

void SimulatedDevice::host_waits(const std::string& what, const Clock& until) {
  if (steps_ > 0) report(concat(what, " in a step"));
  if (!capturing_.empty()) report(concat(what, " in a capture"));
  join(host_, until);
}

Result<std::unique_ptr<Stream>> SimulatedDevice::create_stream() {
  const std::lock_guard lock(mutex_);
  return std::unique_ptr<Stream>(std::make_unique<ThreadStream>(*this, ++streams_));
}

Result<std::unique_ptr<Stream>> SimulatedDevice::borrow_stream(void* native) {
  return std::unique_ptr<Stream>(std::make_unique<BorrowedStream>(native));
}

Result<std::unique_ptr<Event>> SimulatedDevice::create_event() {
  return std::unique_ptr<Event>(std::make_unique<CountedEvent>());
}

Status SimulatedDevice::copy_async(void* to, const void* from, size_t bytes, CopyKind kind, Stream& stream) {
  if (fail_copies) return Status(ErrorCode::kIo, "[device] simulated: the link is down");
  const bool from_host = kind == CopyKind::kHostToDevice, to_host = kind == CopyKind::kDeviceToHost;
  const Range host{from_host ? from : to, bytes};
  {
    const std::lock_guard lock(mutex_);
    uintptr_t base = 0;
    const Allocation* const memory = from_host || to_host ? find(host, &base) : nullptr;
    if ((from_host || to_host) && (memory == nullptr || !memory->pinned))
      report("a copy to or from memory that isn't page-locked");
    if ((from_host || to_host) && memory == nullptr) return {};
  }
  // What stands in page-locked memory when a copy is asked for must be what is copied.
  const uint64_t asked = from_host ? hash_of(from, bytes) : 0;
  launch(stream, "a copy", {{from, bytes}}, {{to, bytes}}, [=, this] {
    if (from_host && hash_of(from, bytes) != asked) {
      const std::lock_guard lock(mutex_);
      report("the host changed memory while a copy of it was under way");
    }
    std::memcpy(to, from, bytes);
  });
  ++copies;
  return {};
}

void SimulatedDevice::launch(Stream& on, const std::string& name, const std::vector<Range>& reads,
                             const std::vector<Range>& writes, std::function<void()> work) {
  ThreadStream& stream = thread_of(on);
  const std::lock_guard lock(mutex_);
  if (capturing_.contains(&on)) {
    stream.captured.push_back(
        {[=, this](Stream& replayed) { launch(replayed, name, reads, writes, work); }, nullptr, nullptr});
    return;
  }
  if (duration_ != nullptr) stream.time = std::max(stream.time, host_time_) + duration_(name);
  join(stream.clock, host_);
  ++stream.clock[stream.id];
  for (const Range& range : reads) access(stream, range, false, concat(name, " reads"));
  for (const Range& range : writes) access(stream, range, true, concat(name, " writes"));
  stream.put([this, work = std::move(work), time = delay()] {
    std::this_thread::sleep_for(time);
    const GuardedMemory::Open open(memory_);
    work();
  });
}

Status SimulatedDevice::record(Event& event, Stream& on) {
  ThreadStream& stream = thread_of(on);
  auto& counted = static_cast<CountedEvent&>(event);
  auto mark = std::make_shared<Mark>();
  const std::lock_guard lock(mutex_);
  if (capturing_.contains(&on)) {
    stream.captured.push_back({nullptr, &event, &event});
    return {};
  }
  stream.time = std::max(stream.time, host_time_);
  counted.time = stream.time;
  join(stream.clock, host_);
  counted.mark = mark;
  counted.clock = stream.clock;
  stream.put([mark] { mark->set(); });
  return {};
}

Status SimulatedDevice::wait(Stream& on, const Event& event) {
  ThreadStream& stream = thread_of(on);
  const auto& counted = static_cast<const CountedEvent&>(event);
  const std::lock_guard lock(mutex_);
  if (counted.mark == nullptr) return {};
  stream.time = std::max(stream.time, counted.time);
  join(stream.clock, counted.clock);
  stream.put([mark = counted.mark] { mark->wait(); });
  return {};
}

Result<double> SimulatedDevice::seconds_between(const Event& from, const Event& to) {
  const auto& first = static_cast<const CountedEvent&>(from);
  const auto& last = static_cast<const CountedEvent&>(to);
  const std::lock_guard lock(mutex_);
  if (first.mark == nullptr || last.mark == nullptr || !first.mark->done() || !last.mark->done())
    return Status(ErrorCode::kMisuse, "[device] simulated: times of events that aren't complete");
  if (duration_ != nullptr) return std::chrono::duration<double>(last.time - first.time).count();
  return std::chrono::duration<double>(last.mark->time() - first.mark->time()).count();
}

Result<bool> SimulatedDevice::is_complete(const Event& event) {
  const auto& counted = static_cast<const CountedEvent&>(event);
  const std::lock_guard lock(mutex_);
  if (counted.mark == nullptr) return true;
  const bool done = counted.mark->done();
  if (done) join(host_, counted.clock);
  return done;
}

Status SimulatedDevice::synchronize(Stream& on) {
  ThreadStream& stream = thread_of(on);
  Mark mark;
  {
    const std::lock_guard lock(mutex_);
    host_waits("the host waits for a stream", stream.clock);
    host_time_ = std::max(host_time_, stream.time);
    stream.put([&mark] { mark.set(); });
  }
  mark.wait();
  return {};
}

Status SimulatedDevice::synchronize(const Event& event) {
  const auto& counted = static_cast<const CountedEvent&>(event);
  std::shared_ptr<Mark> mark;
  {
    const std::lock_guard lock(mutex_);
    if (counted.mark == nullptr) return {};
    host_waits("the host waits for an event", counted.clock);
    host_time_ = std::max(host_time_, counted.time);
    mark = counted.mark;
  }
  mark->wait();
  return {};
}

Status SimulatedDevice::on_complete(Stream& on, std::function<void()> fn) {
  ThreadStream& stream = thread_of(on);
  const std::lock_guard lock(mutex_);
  stream.put([this, fn = std::move(fn), clock = stream.clock] {
    {
      const std::lock_guard inner(mutex_);
      join(host_, clock);
    }
    fn();
  });
  return {};
}

void SimulatedDevice::steer_time(Duration duration) {
  const std::lock_guard lock(mutex_);
  duration_ = std::move(duration);
}
void SimulatedDevice::host_works(std::chrono::nanoseconds time) {
  const std::lock_guard lock(mutex_);
  host_time_ += time;
}

struct SimulatedDevice::KeptWork final : Graph {
  std::vector<ThreadStream::Captured> work;
};

Status SimulatedDevice::begin_capture(Stream& stream) {
  const std::lock_guard lock(mutex_);
  capturing_.insert(&stream);
  return {};
}

Result<std::unique_ptr<Graph>> SimulatedDevice::end_capture(Stream& stream) {
  const std::lock_guard lock(mutex_);
  capturing_.erase(&stream);
  auto graph = std::make_unique<KeptWork>();
  graph->work = std::exchange(thread_of(stream).captured, {});
  return std::unique_ptr<Graph>(std::move(graph));
}

Status SimulatedDevice::launch(const Graph& graph, Stream& stream) {
  for (const ThreadStream::Captured& one : static_cast<const KeptWork&>(graph).work) {
    if (one.event != nullptr) {
      DLPIPE_RETURN_IF_ERROR(record(*one.event, stream));
    } else {
      one.launch(stream);
    }
  }
  return {};
}

Status SimulatedDevice::set_event(Graph& graph, const Event& captured, Event& now) {
  for (ThreadStream::Captured& one : static_cast<KeptWork&>(graph).work) {
    if (one.captured != &captured) continue;
    one.event = &now;
    return {};
  }
  return Status(ErrorCode::kMisuse, "[device] simulated: the graph doesn't record this event");
}

}  // namespace dlpipe
