// Devices: one run-time interface over the CPU, CUDA, and (in tests) a simulated device; owned device memory (Buffer), and host
// memory.
//
// Ownership: a Device outlives everything made from it. cpu_device() and the results of find_device() live for the whole
// program. Threads: all functions may be called from any thread. A Stream is used by one thread at a time, but any thread may
// synchronize() with it while it isn't being captured. Cost: on the CPU every call is complete when it returns; on a GPU copies
// and kernels are queued, and allocate() and create_stream() are driver calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/error.h"

namespace dlpipe {

enum class DeviceKind : uint8_t { kCpu = 0, kCuda = 1, kSimulated = 2 };

enum class CopyKind : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kHostToHost };

/// An ordered queue of copies and kernels.
class Stream {
 public:
  virtual ~Stream() = default;
  /// The native handle (cudaStream_t); null if there is none, and for CUDA's default stream.
  virtual void* native() const { return nullptr; }
};

/// Captured work of a stream, which launch() can run any number of times.
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
  /// Whether its memory is host memory and every call is complete when it returns.
  bool is_host() const { return kind() == DeviceKind::kCpu; }
  /// The device's index among those of its kind, from 0.
  virtual int index() const { return 0; }
  /// "cpu", "cuda:0 NVIDIA ...".
  virtual std::string name() const = 0;

  /// Allocates `bytes` of device memory, aligned to at least 64. kOutOfMemory names the requested and the free size.
  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void deallocate(void* memory, size_t bytes) noexcept = 0;
  /// Host memory that asynchronous copies may read: page-locked on CUDA, plain on the CPU.
  virtual Result<void*> allocate_pinned(size_t bytes) = 0;
  virtual void deallocate_pinned(void* memory, size_t bytes) noexcept = 0;

  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  /// Wraps a stream that another library created and owns, given its native() handle. It must outlive its uses here.
  virtual Result<std::unique_ptr<Stream>> borrow_stream(void* native);
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
  /// An event that also records when it was reached. seconds_between() two complete ones is measured by the device's clock.
  virtual Result<std::unique_ptr<Event>> create_timed_event();
  virtual Result<double> seconds_between(const Event& from, const Event& to);
  virtual Status copy_async(void* to, const void* from, size_t bytes, CopyKind kind, Stream& stream) = 0;
  /// During a capture: every launch of the graph records the event, or the one that set_event() replaced it by.
  virtual Status record(Event& event, Stream& stream) = 0;
  /// Work added to `stream` from now on runs after `event`; the host does not wait.
  virtual Status wait(Stream& stream, const Event& event) = 0;
  virtual Result<bool> is_complete(const Event& event) = 0;
  virtual Status synchronize(Stream& stream) = 0;
  virtual Status synchronize(const Event& event) = 0;
  /// Calls `fn` on a thread of the device after all work that is now in `stream`. `fn` must not call this
  /// interface and must not block: it only signals another thread.
  virtual Status on_complete(Stream& stream, std::function<void()> fn) = 0;

  /// Until end_capture(), the work that the calling thread adds to `stream` is recorded and not run; other threads
  /// are unaffected. Meanwhile this thread must not wait or allocate. kUnsupported on devices without graphs.
  virtual Status begin_capture(Stream& stream);
  virtual Result<std::unique_ptr<Graph>> end_capture(Stream& stream);
  /// Runs the graph in `stream`. The memory that it uses must still exist.
  virtual Status launch(const Graph& graph, Stream& stream);
  /// From its next launch on, `graph` records `now` instead of `captured`, the event it was captured with, so that
  /// successive launches don't overwrite each other's times. Both events must outlive the launches.
  virtual Status set_event(Graph& graph, const Event& captured, Event& now);
};

/// The host: copies are memcpy, and streams and events are always complete.
Device& cpu_device();

/// The CUDA device `index`, or an error (built without CUDA, no driver, no such device).
Result<Device*> cuda_device(int index);
/// The calling thread's current CUDA device, for example to allocate page-locked memory, which any device may read.
Result<Device*> current_cuda_device();
/// One line on CUDA for `dlpipe info`: "built without CUDA", "no device", or the device's name.
std::string cuda_summary();

/// The device called `name`: "cpu", "cuda" or "cuda:1".
Result<Device*> find_device(std::string_view name);

/// Owned memory of a device. Move-only; freed on destruction; the device must outlive it. It is not zeroed and doesn't grow.
class Buffer {
 public:
  enum class Memory : uint8_t { kDevice, kPinned };

  Buffer() = default;
  static Result<Buffer> allocate(Device& device, size_t bytes, Memory memory = Memory::kDevice);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size_bytes() const { return size_; }
  std::span<std::byte> bytes() const { return {data(), size_}; }
  Device* device() const { return device_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(memory_, other.memory_);
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
  Memory memory_ = Memory::kDevice;
};

/// Allocates at least `bytes` of host memory, aligned to 64, for tensors, batches and scratch. From 2 MiB on it is aligned to 2
/// MiB and a hint asks for huge pages, because kernels read matrices with rows on many pages, and a new block costs a fault per
/// page. Returns null if there is no memory.
void* allocate_host(size_t bytes) noexcept;
/// `memory`: from allocate_host(), or null.
void free_host(void* memory) noexcept;
/// Discards the contents of these whole pages of memory from allocate_host(). They use no memory until they are written again.
void discard_host(void* memory, size_t bytes) noexcept;

// ---- the time line of a GPU profiler (NVTX)

/// Named ranges of the calling thread. They do nothing without CUDA, and cost next to nothing without a profiler. The ledger
/// opens one for each of its spans. The profiler keeps the pointer `name`, which must be a string literal. Ranges nest.
void push_range(const char* name);
void pop_range();

}  // namespace dlpipe
