// Tensors' memory on devices other than the host: streams and copies. On the host everything here is plain
// memory access.
//
// Each thread has one stream per device, created at first use and synchronized when the thread ends. The thread's copies and
// kernels run in the stream's order, and its blocks are reused in that order (allocator.h). Call synchronize() before
// another thread uses a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dlpipe/device.h"
#include "dlpipe/dtype.h"
#include "engine/core/allocator.h"

namespace dlpipe::engine {

/// The calling thread's stream on `device`.
Stream& engine_stream(Device& device);
/// While an object lives, the calling thread uses `stream` of its device, for kernels in a copy stream. The
/// thread must not create, free or wait for tensors meanwhile.
class UseStream {
 public:
  explicit UseStream(Stream& stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;
};
/// The stream of the innermost UseStream; null if there is none.
Stream* used_stream();
/// Waits until everything in the thread's stream is done.
void synchronize(Device& device);

/// Identifies the order of the calling thread's work on a device, which is the order of its stream. Each stream has a unique
/// number. 0: the thread has no stream.
struct StreamOrder {
  uint64_t number = 0;
  Stream* stream = nullptr;
};
enum class IfNone : uint8_t { kMake, kLeave };
StreamOrder own_order(Device& device, IfNone if_none);

/// Captures work of the calling thread's stream as a graph that can run again (dlpipe/device.h). Code that
/// can't be captured calls refuse_capture(), which throws Error (kUnsupported, "REASON") while this thread
/// captures and does nothing otherwise. Copies from and to the host and waits can't be captured.
class Capture {
 public:
  explicit Capture(Device& device);
  ~Capture();  // unless it was finished, what was captured is thrown away
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::unique_ptr<Graph> finish();

 private:
  Device& device_;
  KeepOrder nobody_waits_;
  bool open_ = true;
};
void refuse_capture(const char* reason);
/// Whether this thread captures.
bool is_capturing();

/// Copies `bytes` between memory of two devices, or of one. Copies from and to the host wait and use
/// page-locked memory; others are queued in the stream. Throws Error.
void copy_memory(Device& to_device, void* to, Device& from_device, const void* from, size_t bytes);

/// copy_strided within `device`.
void copy_strided_on(Device& device, void* to, const void* from, const Shape& shape,
                     std::span<const int64_t> strides, size_t element_bytes);

// Strided copies, which make views contiguous. Host memory. One thread per call, or parallel slices for large
// copies.

/// to[row-major index over shape] = from[sum of index * stride]. `strides` in elements (0 repeats), elements
/// of 1, 2, 4 or 8 bytes. The two must not overlap.
void copy_strided(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                  size_t element_bytes);

}  // namespace dlpipe::engine
