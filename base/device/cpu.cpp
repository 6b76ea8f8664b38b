#include <cstring>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/host_memory.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

namespace {

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }

  Result<void*> allocate(size_t bytes) override {
    void* const memory = allocate_host(bytes);
    if (memory == nullptr) {
      return Status(ErrorCode::kOutOfMemory, concat("[device] cpu: cannot allocate ", human_bytes(bytes),
                                                    "; use a smaller batch, fewer slots or threads"));
    }
    return memory;
  }
  void deallocate(void* memory, size_t) noexcept override { free_host(memory); }
  Result<void*> allocate_pinned(size_t bytes) override { return allocate(bytes); }
  void deallocate_pinned(void* memory, size_t bytes) noexcept override { deallocate(memory, bytes); }

  Result<std::unique_ptr<Stream>> create_stream() override { return std::make_unique<Stream>(); }
  Result<std::unique_ptr<Stream>> borrow_stream(void*) override { return create_stream(); }
  Result<std::unique_ptr<Event>> create_event() override { return std::make_unique<Event>(); }
  Status copy_async(void* to, const void* from, size_t bytes, CopyKind, Stream&) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  // Everything is done when its call returns, so events and streams are always complete.
  Status record(Event&, Stream&) override { return {}; }
  Status wait(Stream&, const Event&) override { return {}; }
  Result<bool> is_complete(const Event&) override { return true; }
  Status synchronize(Stream&) override { return {}; }
  Status synchronize(const Event&) override { return {}; }
  Status on_complete(Stream&, std::function<void()> fn) override {
    fn();
    return {};
  }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace dlpipe
