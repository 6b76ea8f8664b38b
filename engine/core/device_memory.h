// Tensors' memory on devices other than the host: streams, copies. On the host everything here is plain
// memory access.
//
// Each thread has one stream per device, made when it is first asked for and waited for at the thread's end; tensor copies and
// kernels of that thread are in its order, and blocks that it made are used again in that order (allocator.h). So a tensor
// that another thread goes on with has to be waited for: synchronize().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/shape.h"
#include "dlpipe/engine/core/allocator.h"

namespace dlpipe::engine {

/// The calling thread's stream on `device`.
Stream& engine_stream(Device& device);
/// While one lives, the calling thread's stream is `stream`, of the device that it works for: kernels that
/// belong to a copy stream. No tensor is made, freed or waited for meanwhile.
class UseStream {
 public:
  explicit UseStream(Stream& stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;
};
/// That stream; null outside of such scopes.
Stream* used_stream();
/// Waits until everything in the thread's stream is done.
void synchronize(Device& device);

/// What the calling thread has asked of a device is done in one order, its own stream's, which has a number that no other one
/// gets. 0: it has none.
struct StreamOrder {
  uint64_t number = 0;
  Stream* stream = nullptr;
};
enum class IfNone : uint8_t { kMake, kLeave };
StreamOrder own_order(Device& device, IfNone if_none);

/// Work of the calling thread's stream, kept to be run again as it is (base/device/device.h). What can't be
/// so kept says why: refuse_capture() throws Error (kUnsupported, "REASON") while this thread captures, and
/// does nothing otherwise. Copies with the host and waits refuse.
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

/// `bytes` from memory of one device to memory of another, or the same. Copies with the host wait, through
/// page-locked memory; others are in the stream. Throws Error.
void copy_memory(Device& to_device, void* to, Device& from_device, const void* from, size_t bytes);

/// copy_strided (strided_copy.h) within `device`.
void copy_strided_on(Device& device, void* to, const void* from, const Shape& shape,
                     std::span<const int64_t> strides, size_t element_bytes);

}  // namespace dlpipe::engine
