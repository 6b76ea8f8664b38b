#include "dlpipe/base/buffer.h"

namespace dlpipe {

Result<Buffer> Buffer::allocate(Device& device, size_t bytes, Memory memory) {
  DLPIPE_ASSIGN_OR_RETURN(void* data,
                          memory == Memory::kPinned ? device.allocate_pinned(bytes) : device.allocate(bytes));
  Buffer buffer;
  buffer.device_ = &device;
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.memory_ = memory;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (memory_ == Memory::kPinned) {
    device_->deallocate_pinned(data_, size_);
  } else {
    device_->deallocate(data_, size_);
  }
}

}  // namespace dlpipe
