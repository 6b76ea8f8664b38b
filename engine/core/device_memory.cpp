#include "dlpipe/engine/core/device_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/strided_copy.h"

namespace dlpipe::engine {

namespace {

/// A thread's stream on a device, and page-locked memory for its copies with the host.
class ThreadStream {
 public:
  static constexpr size_t kStageBytes = size_t{4} << 20;

  explicit ThreadStream(Device& device) : device_(device) {
    auto stream = device.create_stream();
    throw_if_error(stream.status());
    stream_ = *std::move(stream);
  }
  ~ThreadStream() {
    (void)device_.synchronize(*stream_);  // one that has failed runs nothing any more
    end_order(device_, number_);
    if (stage_ != nullptr) device_.deallocate_pinned(stage_, kStageBytes);
  }
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;

  Stream& stream() { return *stream_; }
  StreamOrder order() { return {number_, stream_.get()}; }
  void wait() { throw_if_error(device_.synchronize(*stream_)); }

  void from_host(std::byte* to, const std::byte* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kStageBytes) {
      const size_t part = std::min(kStageBytes, bytes - at);
      std::memcpy(stage(), from + at, part);
      throw_if_error(device_.copy_async(to + at, stage(), part, CopyKind::kHostToDevice, *stream_));
      wait();
    }
  }
  void to_host(std::byte* to, const std::byte* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kStageBytes) {
      const size_t part = std::min(kStageBytes, bytes - at);
      throw_if_error(device_.copy_async(stage(), from + at, part, CopyKind::kDeviceToHost, *stream_));
      wait();
      std::memcpy(to + at, stage(), part);
    }
  }

 private:
  void* stage() {
    if (stage_ == nullptr) {
      const Result<void*> memory = device_.allocate_pinned(kStageBytes);
      throw_if_error(memory.status());
      stage_ = *memory;
    }
    return stage_;
  }

  static uint64_t next_number() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  Device& device_;
  const uint64_t number_ = next_number();
  std::unique_ptr<Stream> stream_;
  void* stage_ = nullptr;
};

// Tensors may be freed after the thread's streams are gone.
thread_local bool t_streams_are_gone = false;

struct ThreadStreams {
  ThreadStreams() = default;
  ~ThreadStreams() { t_streams_are_gone = true; }
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;

  std::map<Device*, std::unique_ptr<ThreadStream>> of_device;
};
thread_local ThreadStreams t_streams;

ThreadStream& thread_stream(Device& device) {
  std::unique_ptr<ThreadStream>& stream = t_streams.of_device[&device];
  if (stream == nullptr) stream = std::make_unique<ThreadStream>(device);
  return *stream;
}

}  // namespace

StreamOrder own_order(Device& device, IfNone if_none) {
  if (t_streams_are_gone) return {};
  if (if_none == IfNone::kMake) return thread_stream(device).order();
  const auto found = t_streams.of_device.find(&device);
  return found == t_streams.of_device.end() || found->second == nullptr ? StreamOrder{}
                                                                        : found->second->order();
}

static thread_local Stream* t_used_stream = nullptr;

UseStream::UseStream(Stream& stream) {
  t_used_stream = &stream;
}
UseStream::~UseStream() {
  t_used_stream = nullptr;
}
Stream* used_stream() {
  return t_used_stream;
}

Stream& engine_stream(Device& device) {
  return t_used_stream != nullptr ? *t_used_stream : thread_stream(device).stream();
}

static thread_local bool t_captures = false;

Capture::Capture(Device& device) : device_(device), nobody_waits_(device) {
  throw_if_error(device_.begin_capture(engine_stream(device_)));
  t_captures = true;
}
Capture::~Capture() {
  if (!open_) return;
  t_captures = false;
  (void)device_.end_capture(engine_stream(device_));
}
std::unique_ptr<Graph> Capture::finish() {
  open_ = false;
  t_captures = false;
  return value_or_throw(device_.end_capture(engine_stream(device_)));
}
bool is_capturing() {
  return t_captures;
}

void refuse_capture(const char* reason) {
  if (t_captures) throw Error(Status(ErrorCode::kUnsupported, reason));
}

void synchronize(Device& device) {
  if (!device.is_host()) refuse_capture("something waits for the device");
  if (!device.is_host()) thread_stream(device).wait();
}

void copy_memory(Device& to_device, void* to, Device& from_device, const void* from, size_t bytes) {
  if (bytes == 0) return;
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  if (to_device.is_host() && from_device.is_host()) {
    std::memcpy(to, from, bytes);
  } else if (from_device.is_host()) {
    refuse_capture("something is copied from the host");
    thread_stream(to_device).from_host(target, source, bytes);
  } else if (to_device.is_host()) {
    refuse_capture("something is copied to the host");
    thread_stream(from_device).to_host(target, source, bytes);
  } else {
    if (&to_device != &from_device) synchronize(from_device);
    throw_if_error(
        to_device.copy_async(to, from, bytes, CopyKind::kDeviceToDevice, thread_stream(to_device).stream()));
  }
}

void copy_strided_on(Device& device, void* to, const void* from, const Shape& shape,
                     std::span<const int64_t> strides, size_t element_bytes) {
  if (device.is_host()) return copy_strided(to, from, shape, strides, element_bytes);
  device_code(device).copy_strided(to, from, shape, strides, element_bytes);
}

}  // namespace dlpipe::engine
