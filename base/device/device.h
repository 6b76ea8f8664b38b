// Where memory lives and work runs: one run-time interface over the CPU, CUDA, and (in tests) a simulated
// device.
//
// The pipeline's stager and the engine's allocators see only this. A Device outlives everything made from it;
// cpu_device() lives for the whole program. All functions may be called from any thread; a Stream is used by
// one thread at a time, but any may synchronize() with it while nothing captures it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe {

enum class DeviceKind : uint8_t { kCpu = 0, kCuda = 1, kSimulated = 2 };

enum class CopyKind : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kHostToHost };

/// An ordered queue of copies and kernels.
class Stream {
 public:
  virtual ~Stream() = default;
  /// What the device's own interface calls it (cudaStream_t); null where there is none, and for CUDA's default stream.
  virtual void* native() const { return nullptr; }
};

/// Work of a stream that was kept to be asked for again, as often as wanted, in one call.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// A point in a stream's work. Unrecorded events count as complete.
class Event {
 public:
  virtual ~Event() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  /// Its memory is the host's own, and what is asked of it is done when the call returns.
  bool is_host() const { return kind() == DeviceKind::kCpu; }
  /// Which of its kind, from 0.
  virtual int index() const { return 0; }
  /// "cpu", "cuda:0 NVIDIA ...".
  virtual std::string name() const = 0;

  /// `bytes` of device memory, aligned to at least 64. kOutOfMemory names the size asked and the size free.
  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void deallocate(void* memory, size_t bytes) noexcept = 0;
  /// Host memory that asynchronous copies may read: page-locked on CUDA, plain on the CPU.
  virtual Result<void*> allocate_pinned(size_t bytes) = 0;
  virtual void deallocate_pinned(void* memory, size_t bytes) noexcept = 0;

  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  /// A stream that others made and keep, by what their native() would say of it. It outlives what is asked of it here.
  virtual Result<std::unique_ptr<Stream>> borrow_stream(void* native);
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
  /// One that also knows when it was reached: seconds_between two that are complete is the device's own time.
  virtual Result<std::unique_ptr<Event>> create_timed_event();
  virtual Result<double> seconds_between(const Event& from, const Event& to);
  virtual Status copy_async(void* to, const void* from, size_t bytes, CopyKind kind, Stream& stream) = 0;
  /// In a capture: every launch of the graph records it, or what set_event puts in its place.
  virtual Status record(Event& event, Stream& stream) = 0;
  /// Work put into `stream` from now on runs after `event`; the host does not wait.
  virtual Status wait(Stream& stream, const Event& event) = 0;
  virtual Result<bool> is_complete(const Event& event) = 0;
  virtual Status synchronize(Stream& stream) = 0;
  virtual Status synchronize(const Event& event) = 0;
  /// Calls `fn` once everything now in `stream` is done, from a thread of the device's. `fn` makes no call of
  /// this interface and doesn't block: it only posts.
  virtual Status on_complete(Stream& stream, std::function<void()> fn) = 0;

  /// From here to end_capture what the calling thread puts into `stream` is kept and not run; other threads
  /// go on as ever. Meanwhile this thread neither waits nor allocates. kUnsupported where there are no
  /// graphs.
  virtual Status begin_capture(Stream& stream);
  virtual Result<std::unique_ptr<Graph>> end_capture(Stream& stream);
  /// Runs it in `stream`'s order. The memory that it names is still there.
  virtual Status launch(const Graph& graph, Stream& stream);
  /// From its next launch on, `graph` records `now` where it was captured to record `captured`: so launches
  /// that follow one another don't overwrite each other's times. Both live as long as launches are under way.
  virtual Status set_event(Graph& graph, const Event& captured, Event& now);
};

/// The host: copies are memcpy, streams and events are complete at once.
Device& cpu_device();

/// The CUDA device `index`, or why there is none (built without CUDA, no driver, no such device).
Result<Device*> cuda_device(int index);
/// The one that is the calling thread's current: for page-locked memory, which any may read.
Result<Device*> current_cuda_device();
/// One line on CUDA for `dlpipe info`: "built without CUDA", "no device", or the device's name.
std::string cuda_summary();

/// "cpu", "cuda", "cuda:1" -> the device.
Result<Device*> find_device(std::string_view name);

}  // namespace dlpipe
