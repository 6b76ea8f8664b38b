// Owned memory of a device. Move-only; frees on destruction; the device must outlive it. No zeroing, no
// growth.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/error.h"

namespace dlpipe {

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

}  // namespace dlpipe
