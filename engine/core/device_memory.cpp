#include "dlpipe/engine/core/device_memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "dlpipe/base/error.h"
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
    if (stage_ != nullptr) device_.deallocate_pinned(stage_, kStageBytes);
  }
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;

  Stream& stream() { return *stream_; }
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

  Device& device_;
  std::unique_ptr<Stream> stream_;
  void* stage_ = nullptr;
};

ThreadStream& thread_stream(Device& device) {
  thread_local std::map<Device*, std::unique_ptr<ThreadStream>> streams;
  std::unique_ptr<ThreadStream>& stream = streams[&device];
  if (stream == nullptr) stream = std::make_unique<ThreadStream>(device);
  return *stream;
}

}  // namespace

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

Capture::Capture(Device& device) : device_(device) {
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
