// An asynchronous device made of threads, which also watches the order of what it is asked to do.
//
// Every stream runs its work in order on a thread of its own, late and by a seeded random delay. Copies
// happen when the stream comes to them, from and to whatever then stands in memory, so that a slot or twin
// that is reused too early shows in the pixels. Fresh and freed memory is poisoned. The device's own is closed to the host
// (guarded_memory.h): a program that touches it ends by SIGSEGV.
//
// Beside that, order is checked as such, whatever the delays: each piece of work on a stream carries a vector
// clock (Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988) of what is
// known to be done before it, through its stream, events and waits of the host; two accesses to the same
// memory, one of them a write, of which neither is known to come first, are a violation. All threads of the
// host count as one, so that what they tell each other need not be known. Further violations: memory that is
// written, changed or freed by the host while a copy of it is under way; copies from memory that isn't
// page-locked; accesses outside of allocations; waits of the host in a step, or in a capture; allocations in
// a capture. take_violations() lists them in words.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/device.h"
#include "dlpipe/random.h"
#include "tests/base/device/guarded_memory.h"

namespace dlpipe {

class SimulatedDevice final : public Device {
 public:
  static constexpr uint8_t kFresh = 0xa5, kFreed = 0x5a;

  /// Delays are uniform in [0, 2 copy_time), drawn from `seed`.
  explicit SimulatedDevice(std::chrono::microseconds copy_time = std::chrono::microseconds(300),
                           uint64_t seed = 1);
  ~SimulatedDevice() override;

  DeviceKind kind() const override { return DeviceKind::kSimulated; }
  std::string name() const override { return "simulated"; }
  Result<void*> allocate(size_t bytes) override { return take(bytes, false); }
  void deallocate(void* memory, size_t bytes) noexcept override { give(memory, bytes, false); }
  Result<void*> allocate_pinned(size_t bytes) override { return take(bytes, true); }
  void deallocate_pinned(void* memory, size_t bytes) noexcept override { give(memory, bytes, true); }
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Stream>> borrow_stream(void* native) override;
  Result<std::unique_ptr<Event>> create_event() override;
  Result<std::unique_ptr<Event>> create_timed_event() override { return create_event(); }
  Result<double> seconds_between(const Event& from, const Event& to) override;
  Status copy_async(void* to, const void* from, size_t bytes, CopyKind kind, Stream& stream) override;
  Status record(Event& event, Stream& stream) override;
  Status wait(Stream& stream, const Event& event) override;
  Result<bool> is_complete(const Event& event) override;
  Status synchronize(Stream& stream) override;
  Status synchronize(const Event& event) override;
  Status on_complete(Stream& stream, std::function<void()> fn) override;

  /// A kernel: work() on the stream, which reads and writes these pieces of memory.
  struct Range {
    const void* begin = nullptr;
    size_t bytes = 0;
  };
  void launch(
      Stream& stream, const std::string& name, const std::vector<Range>& reads,
      const std::vector<Range>& writes, std::function<void()> work = [] {});
  /// The one that made it.
  static SimulatedDevice& of(Stream& stream);
  /// While the answer lives a test reads memory of the device itself.
  [[nodiscard]] GuardedMemory::Open open_to_host() { return GuardedMemory::Open(memory_); }
  /// What the host itself does with memory of the device or page-locked memory.
  void host_reads(const Range& range) { host_accesses(range, false); }
  void host_writes(const Range& range) { host_accesses(range, true); }

  /// While one lives the host must not wait: a training step is asked for, not waited for.
  class Step {
   public:
    explicit Step(SimulatedDevice& device) : device_(device) { ++device_.steps_; }
    ~Step() { --device_.steps_; }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    SimulatedDevice& device_;
  };

  /// A graph's copies, kernels and recorded events are each launched as if they were asked for then.
  Status begin_capture(Stream& stream) override;
  Result<std::unique_ptr<Graph>> end_capture(Stream& stream) override;
  Status launch(const Graph& graph, Stream& stream) override;
  Status set_event(Graph& graph, const Event& captured, Event& now) override;

  /// From here on times of events are not the machine's but follow from what was asked for: a piece of work
  /// takes what `duration` says of its name and begins when its stream's work before it, the events that it
  /// waits for and the host's asking allow. The host's time stands still but for host_works().
  using Duration = std::function<std::chrono::nanoseconds(const std::string& name)>;
  void steer_time(Duration duration);
  void host_works(std::chrono::nanoseconds time);

  /// Those since they were last taken: a device lives as long as its program's threads, but what a test did
  /// is no other's. Tests end with expect_no_violations() (violations.h).
  std::vector<std::string> take_violations();

  std::atomic<int64_t> bytes_held{0};
  std::atomic<int> copies{0};
  std::atomic<bool> fail_copies{false};
  std::atomic<int64_t> memory_bytes{int64_t{1} << 40};  // of device and page-locked memory that there is

 private:
  using Clock = std::map<int, int64_t>;  // by stream: how many of its pieces of work are done
  struct Access {
    int stream;
    int64_t time;
    uintptr_t begin, end;
    bool writes;
    std::string what;
  };
  struct Allocation {
    size_t bytes;
    bool pinned;
    std::vector<Access> accesses;  // that the host doesn't know to be done
  };
  class ThreadStream;
  class BorrowedStream;
  struct CountedEvent;
  struct KeptWork;

  static ThreadStream& thread_of(Stream& stream);
  Result<void*> take(size_t bytes, bool pinned);
  void give(void* memory, size_t bytes, bool pinned) noexcept;
  std::chrono::microseconds delay();
  void host_accesses(const Range& range, bool writes);
  void host_waits(const std::string& what, const Clock& until);
  /// Checks and notes an access by the newest work of `stream`. Lock held.
  void access(ThreadStream& stream, const Range& range, bool writes, const std::string& what);
  Allocation* find(const Range& range, uintptr_t* base);
  void report(const std::string& violation);
  static void join(Clock& into, const Clock& other);

  mutable std::mutex mutex_;
  std::chrono::microseconds copy_time_;
  RandomStream random_;
  GuardedMemory memory_;  // not the page-locked
  std::map<uintptr_t, Allocation> allocations_;
  Clock host_;
  int streams_ = 0;
  std::atomic<int> steps_{0};
  std::set<const Stream*> capturing_;
  Duration duration_;  // null: the machine's time
  std::chrono::nanoseconds host_time_{0};
  std::vector<std::string> violations_;
};

}  // namespace dlpipe
