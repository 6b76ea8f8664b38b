#include "engine/core/device_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "dlpipe/error.h"
#include "engine/core/allocator.h"
#include "engine/core/device_code.h"
#include "engine/core/parallel.h"

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
    (void)device_.synchronize(*stream_);  // a failed stream no longer runs anything
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

// Tensors may be freed after the thread's streams have been destroyed.
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
  if (!device.is_host()) refuse_capture("a call waits for the device");
  if (!device.is_host()) thread_stream(device).wait();
}

void copy_memory(Device& to_device, void* to, Device& from_device, const void* from, size_t bytes) {
  if (bytes == 0) return;
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  if (to_device.is_host() && from_device.is_host()) {
    std::memcpy(to, from, bytes);
  } else if (from_device.is_host()) {
    refuse_capture("a call copies from the host");
    thread_stream(to_device).from_host(target, source, bytes);
  } else if (to_device.is_host()) {
    refuse_capture("a call copies to the host");
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

namespace {

struct Axis {
  int64_t size;
  int64_t from;  // stride in elements
  int64_t to;
};

// The axes without those of size 1, with contiguous neighbours merged; at least one remains.
std::vector<Axis> merged_axes(const Shape& shape, std::span<const int64_t> strides) {
  std::vector<Axis> axes;
  int64_t to = shape.elements();
  for (int i = 0; i < shape.rank(); ++i) {
    to /= shape[i];
    if (shape[i] == 1) continue;
    const Axis axis = {shape[i], strides[i], to};
    if (!axes.empty() && axes.back().from == axis.from * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  return axes;
}

// One plane of a transposition: `rows` x `columns`, written by row and read by column. Tiles of 16 keep the lines
// of both sides in the first-level cache.
template <class T>
void copy_plane(T* to, const T* from, const Axis& row, const Axis& column) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < row.size; r0 += kTile) {
    const int64_t r1 = std::min(r0 + kTile, row.size);
    for (int64_t c0 = 0; c0 < column.size; c0 += kTile) {
      const int64_t c1 = std::min(c0 + kTile, column.size);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c)
          to[r * row.to + c * column.to] = from[r * row.from + c * column.from];
      }
    }
  }
}

template <class T>
void copy_typed(T* to, const T* from, std::vector<Axis> axes) {
  // The plane: the last axis, and the one along which the source is densest.
  const Axis column = axes.back();
  axes.pop_back();
  Axis row = {1, 0, 0};
  if (!axes.empty()) {
    auto densest = axes.end() - 1;
    if (column.from != 1) {
      densest = std::min_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
        return std::abs(a.from) < std::abs(b.from);
      });
    }
    row = *densest;
    axes.erase(densest);
  }
  int64_t planes = 1;
  for (const Axis& axis : axes) planes *= axis.size;
  const int64_t plane_elements = row.size * column.size;
  // About 64 KB per slice, which is worth passing to another core.
  const int64_t planes_per_slice =
      std::max<int64_t>(1, 65536 / std::max<int64_t>(1, plane_elements * static_cast<int64_t>(sizeof(T))));
  auto copy_range = [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      int64_t rest = plane;
      int64_t from_offset = 0;
      int64_t to_offset = 0;
      for (size_t i = axes.size(); i-- > 0;) {
        const int64_t index = rest % axes[i].size;
        rest /= axes[i].size;
        from_offset += index * axes[i].from;
        to_offset += index * axes[i].to;
      }
      if (column.from == 1) {
        for (int64_t r = 0; r < row.size; ++r) {
          std::memcpy(to + to_offset + r * row.to, from + from_offset + r * row.from,
                      column.size * sizeof(T));
        }
      } else {
        copy_plane(to + to_offset, from + from_offset, row, column);
      }
    }
  };
  parallel_ranges(planes, planes_per_slice, copy_range);
}

}  // namespace

void copy_strided(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                  size_t element_bytes) {
  if (shape.elements() == 0) return;
  std::vector<Axis> axes = merged_axes(shape, strides);
  switch (element_bytes) {
    case 1:
      return copy_typed(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), std::move(axes));
    case 2:
      return copy_typed(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), std::move(axes));
    case 4:
      return copy_typed(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), std::move(axes));
    case 8:
      return copy_typed(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), std::move(axes));
    default:
      throw Error(
          Status(ErrorCode::kInternal, "[tensor] copy_strided of elements that are not 1, 2, 4 or 8 bytes"));
  }
}

}  // namespace dlpipe::engine
