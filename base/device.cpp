#include "dlpipe/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace dlpipe {

// ---- functions that a device need not implement

static Status no_times(const Device& device) {
  return Status(ErrorCode::kUnsupported,
                concat("[device] events of ", device.name(), " do not record times"));
}
Result<std::unique_ptr<Event>> Device::create_timed_event() {
  return no_times(*this);
}
Result<double> Device::seconds_between(const Event&, const Event&) {
  return no_times(*this);
}

Result<std::unique_ptr<Stream>> Device::borrow_stream(void*) {
  return Status(ErrorCode::kUnsupported, concat("[device] ", name(), " can't use another library's streams"));
}

static Status no_graphs(const Device& device) {
  return Status(ErrorCode::kUnsupported, concat("[device] ", device.name(), " does not support graphs"));
}
Status Device::begin_capture(Stream&) {
  return no_graphs(*this);
}
Result<std::unique_ptr<Graph>> Device::end_capture(Stream&) {
  return no_graphs(*this);
}
Status Device::launch(const Graph&, Stream&) {
  return no_graphs(*this);
}
Status Device::set_event(Graph&, const Event&, Event&) {
  return no_graphs(*this);
}

// ---- the CPU

void* allocate_host(size_t bytes) noexcept {
  constexpr size_t kAlignment = 64;  // a cache line, and the widest vector
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool large = bytes >= kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kHugePage : kAlignment, std::max(bytes, kAlignment)) != 0)
    return nullptr;
  // Only a hint: if the kernel refuses, the pages stay small.
  if (large) (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void free_host(void* memory) noexcept {
  std::free(memory);
}

void discard_host(void* memory, size_t bytes) noexcept {
  (void)madvise(memory, bytes, MADV_DONTNEED);
}

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
  // Each call completes its work before it returns, so events and streams are always complete.
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

Result<Device*> find_device(std::string_view name) {
  if (name == "cpu") return &cpu_device();
  if (name == "cuda") return cuda_device(0);
  int64_t index = 0;
  if (name.starts_with("cuda:") && parse_int(name.substr(5), &index) && index >= 0 && index < 1024) {
    return cuda_device(static_cast<int>(index));
  }
  return misuse("device", "unknown device '", name, "'; use cpu, cuda or cuda:N");
}

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
