// The CUDA side of Device: host code over the runtime API, and the driver API for a thread's current context. The only file of
// base that may include CUDA headers.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <utility>
#include <vector>

#include "base/current_cuda.h"
#include "base/messages.h"
#include "base/mutex.h"
#include "base/text.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"

namespace dlpipe {

namespace {

/// Driver functions without a runtime equivalent. The runtime has already loaded the library.
struct Driver {
  CUresult (*get_current)(CUcontext*) = nullptr;
  CUresult (*get_device)(CUdevice*) = nullptr;  // the current context's
  CUresult (*set_current)(CUcontext) = nullptr;

  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return;
    find(library, "cuCtxGetCurrent", get_current);
    find(library, "cuCtxGetDevice", get_device);
    find(library, "cuCtxSetCurrent", set_current);
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
};
const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

}  // namespace

// Compares contexts, not the runtime's current device: other libraries may use a CUDA runtime of their own.
CurrentCuda::CurrentCuda(int index) {
  CUcontext context = nullptr;
  CUdevice device = -1;
  if (driver().get_current != nullptr) driver().get_current(&context);
  if (context != nullptr && driver().get_device(&device) == CUDA_SUCCESS && device == index) return;
  int next = 0;  // a call without a context creates that device's
  if (context == nullptr && index == 0 && cudaGetDevice(&next) == cudaSuccess && next == 0) return;
  former_ = context;
  puts_back_ = context != nullptr || index != 0;
  cudaSetDevice(index);
}
CurrentCuda::~CurrentCuda() {
  if (puts_back_ && driver().set_current != nullptr) driver().set_current(static_cast<CUcontext>(former_));
}

namespace {

Status cuda_status(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // reported here, not again by the next call
  const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kIo;
  return Status(
      code, concat("[device] cuda: ", what, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
}

class CudaStream final : public Stream {
 public:
  enum class Owner : uint8_t { kThis, kOther };
  CudaStream(int index, cudaStream_t stream, Owner owner) : handle(stream), index_(index), owner_(owner) {}
  ~CudaStream() override {
    if (owner_ != Owner::kThis) return;
    const CurrentCuda current(index_);
    cudaStreamDestroy(handle);
  }
  void* native() const override { return handle; }
  const cudaStream_t handle;
  bool captures = false;

 private:
  const int index_;
  const Owner owner_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(int index, cudaEvent_t event) : handle(event), index_(index) {}
  ~CudaEvent() override {
    const CurrentCuda current(index_);
    cudaEventDestroy(handle);
  }
  const cudaEvent_t handle;

 private:
  const int index_;
};

// The captured graph lives as long as the executable one, because its nodes identify the executable graph's.
class CudaGraph final : public Graph {
 public:
  CudaGraph(int index, cudaGraph_t captured) : index_(index), captured_(captured) {}
  ~CudaGraph() override {
    const CurrentCuda current(index_);
    if (handle != nullptr) cudaGraphExecDestroy(handle);
    cudaGraphDestroy(captured_);
  }
  Status instantiate() {
    DLPIPE_RETURN_IF_ERROR(cuda_status("cudaGraphInstantiate", cudaGraphInstantiate(&handle, captured_, 0)));
    size_t count = 0;
    DLPIPE_RETURN_IF_ERROR(cuda_status("cudaGraphGetNodes", cudaGraphGetNodes(captured_, nullptr, &count)));
    std::vector<cudaGraphNode_t> nodes(count);
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaGraphGetNodes", cudaGraphGetNodes(captured_, nodes.data(), &count)));
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      DLPIPE_RETURN_IF_ERROR(cuda_status("cudaGraphNodeGetType", cudaGraphNodeGetType(node, &type)));
      if (type != cudaGraphNodeTypeEventRecord) continue;
      cudaEvent_t event = nullptr;
      DLPIPE_RETURN_IF_ERROR(
          cuda_status("cudaGraphEventRecordNodeGetEvent", cudaGraphEventRecordNodeGetEvent(node, &event)));
      records_.emplace_back(event, node);
    }
    return {};
  }
  Status set_event(cudaEvent_t captured, cudaEvent_t now) {
    for (const auto& [event, node] : records_) {
      if (event == captured)
        return cuda_status("cudaGraphExecEventRecordNodeSetEvent",
                           cudaGraphExecEventRecordNodeSetEvent(handle, node, now));
    }
    return misuse("device", "cuda: the graph doesn't record this event");
  }
  cudaGraphExec_t handle = nullptr;

 private:
  const int index_;
  const cudaGraph_t captured_;
  std::vector<std::pair<cudaEvent_t, cudaGraphNode_t>> records_;  // the captured event of each node
};

cudaStream_t handle_of(Stream& stream) {
  return static_cast<CudaStream&>(stream).handle;
}
cudaEvent_t handle_of(const Event& event) {
  return static_cast<const CudaEvent&>(event).handle;
}

void CUDART_CB run_host_function(cudaStream_t, cudaError_t, void* data) {
  const std::unique_ptr<std::function<void()>> fn(static_cast<std::function<void()>*>(data));
  (*fn)();
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, std::string description) : index_(index), description_(std::move(description)) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  int index() const override { return index_; }
  std::string name() const override { return concat("cuda:", index_, " ", description_); }

  Result<void*> allocate(size_t bytes) override {
    const CurrentCuda current(index_);
    void* memory = nullptr;
    if (const cudaError_t error = cudaMalloc(&memory, bytes); error != cudaSuccess) {
      size_t free = 0;
      size_t total = 0;
      cudaMemGetInfo(&free, &total);
      return cuda_status("cudaMalloc", error)
          .with_context(concat("[device] ", human_bytes(bytes), " asked, ", human_bytes(free), " of ",
                               human_bytes(total), " free; use a smaller batch: "));
    }
    return memory;
  }
  void deallocate(void* memory, size_t) noexcept override {
    const CurrentCuda current(index_);
    cudaFree(memory);
  }
  Result<void*> allocate_pinned(size_t bytes) override {
    const CurrentCuda current(index_);
    void* memory = nullptr;
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaHostAlloc", cudaHostAlloc(&memory, bytes, cudaHostAllocPortable)));
    return memory;
  }
  void deallocate_pinned(void* memory, size_t) noexcept override {
    const CurrentCuda current(index_);
    cudaFreeHost(memory);
  }

  Result<std::unique_ptr<Stream>> create_stream() override {
    const CurrentCuda current(index_);
    cudaStream_t stream = nullptr;
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
    return std::unique_ptr<Stream>(std::make_unique<CudaStream>(index_, stream, CudaStream::Owner::kThis));
  }
  Result<std::unique_ptr<Stream>> borrow_stream(void* native) override {
    return std::unique_ptr<Stream>(
        std::make_unique<CudaStream>(index_, static_cast<cudaStream_t>(native), CudaStream::Owner::kOther));
  }
  Result<std::unique_ptr<Event>> create_event() override { return new_event(cudaEventDisableTiming); }
  Result<std::unique_ptr<Event>> create_timed_event() override { return new_event(cudaEventDefault); }
  Result<double> seconds_between(const Event& from, const Event& to) override {
    const CurrentCuda current(index_);
    float milliseconds = 0;
    DLPIPE_RETURN_IF_ERROR(cuda_status("cudaEventElapsedTime",
                                       cudaEventElapsedTime(&milliseconds, handle_of(from), handle_of(to))));
    return double{milliseconds} * 1e-3;
  }

  Status copy_async(void* to, const void* from, size_t bytes, CopyKind kind, Stream& stream) override {
    const CurrentCuda current(index_);
    static constexpr std::array<cudaMemcpyKind, 4> kKinds = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                                             cudaMemcpyDeviceToDevice, cudaMemcpyHostToHost};
    return cuda_status("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, kKinds[static_cast<size_t>(kind)],
                                                          handle_of(stream)));
  }
  // "External" makes the record a node of the graph, which records the event in each launch. A plain record
  // in a capture would only order the capture's streams, and its time can't be read.
  Status record(Event& event, Stream& stream) override {
    const CurrentCuda current(index_);
    const unsigned flags =
        static_cast<CudaStream&>(stream).captures ? cudaEventRecordExternal : cudaEventRecordDefault;
    return cuda_status("cudaEventRecordWithFlags",
                       cudaEventRecordWithFlags(handle_of(event), handle_of(stream), flags));
  }
  Status wait(Stream& stream, const Event& event) override {
    const CurrentCuda current(index_);
    return cuda_status("cudaStreamWaitEvent", cudaStreamWaitEvent(handle_of(stream), handle_of(event), 0));
  }
  Result<bool> is_complete(const Event& event) override {
    const CurrentCuda current(index_);
    const cudaError_t error = cudaEventQuery(handle_of(event));
    if (error == cudaErrorNotReady) return false;
    DLPIPE_RETURN_IF_ERROR(cuda_status("cudaEventQuery", error));
    return true;
  }
  Status synchronize(Stream& stream) override {
    const CurrentCuda current(index_);
    return cuda_status("cudaStreamSynchronize", cudaStreamSynchronize(handle_of(stream)));
  }
  Status synchronize(const Event& event) override {
    const CurrentCuda current(index_);
    return cuda_status("cudaEventSynchronize", cudaEventSynchronize(handle_of(event)));
  }
  Status on_complete(Stream& stream, std::function<void()> fn) override {
    const CurrentCuda current(index_);
    auto owned = std::make_unique<std::function<void()>>(std::move(fn));
    // Not cudaLaunchHostFunc: it doesn't call its function if the device has failed meanwhile, and a waiter would wait forever.
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaStreamAddCallback",
                    cudaStreamAddCallback(handle_of(stream), run_host_function, owned.get(), 0)));
    owned.release();  // run_host_function owns it now
    return {};
  }

  // Captures this thread only: a page-locked allocation of a loader on another thread must not break the capture.
  Status begin_capture(Stream& stream) override {
    const CurrentCuda current(index_);
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaStreamBeginCapture",
                    cudaStreamBeginCapture(handle_of(stream), cudaStreamCaptureModeThreadLocal)));
    static_cast<CudaStream&>(stream).captures = true;
    return {};
  }
  Result<std::unique_ptr<Graph>> end_capture(Stream& stream) override {
    const CurrentCuda current(index_);
    static_cast<CudaStream&>(stream).captures = false;
    cudaGraph_t captured = nullptr;
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaStreamEndCapture", cudaStreamEndCapture(handle_of(stream), &captured)));
    auto graph = std::make_unique<CudaGraph>(index_, captured);
    DLPIPE_RETURN_IF_ERROR(graph->instantiate());
    return std::unique_ptr<Graph>(std::move(graph));
  }
  Status launch(const Graph& graph, Stream& stream) override {
    const CurrentCuda current(index_);
    return cuda_status("cudaGraphLaunch",
                       cudaGraphLaunch(static_cast<const CudaGraph&>(graph).handle, handle_of(stream)));
  }
  Status set_event(Graph& graph, const Event& captured, Event& now) override {
    const CurrentCuda current(index_);
    return static_cast<CudaGraph&>(graph).set_event(handle_of(captured), handle_of(now));
  }

 private:
  Result<std::unique_ptr<Event>> new_event(unsigned flags) {
    const CurrentCuda current(index_);
    cudaEvent_t event = nullptr;
    DLPIPE_RETURN_IF_ERROR(cuda_status("cudaEventCreate", cudaEventCreateWithFlags(&event, flags)));
    return std::unique_ptr<Event>(std::make_unique<CudaEvent>(index_, event));
  }

  int index_;
  std::string description_;
};

}  // namespace

Result<Device*> cuda_device(int index) {
  static Mutex mutex;
  static std::array<std::unique_ptr<CudaDevice>, 16> devices;
  const MutexLock lock(mutex);
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return Status(ErrorCode::kNotFound, concat("[device] no CUDA device (", cudaGetErrorString(error),
                                               "); use --device cpu, or check the driver with nvidia-smi"));
  }
  if (index < 0 || index >= count || index >= static_cast<int>(devices.size())) {
    return Status(ErrorCode::kNotFound,
                  concat("[device] no cuda:", index, "; this machine has cuda:0 to cuda:", count - 1));
  }
  auto& device = devices[static_cast<size_t>(index)];
  if (device == nullptr) {
    cudaDeviceProp properties{};
    DLPIPE_RETURN_IF_ERROR(
        cuda_status("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, index)));
    device = std::make_unique<CudaDevice>(index, properties.name);
  }
  return static_cast<Device*>(device.get());
}

Result<Device*> current_cuda_device() {
  int index = 0;
  if (cudaGetDevice(&index) != cudaSuccess) index = 0;  // cuda_device() reports the error
  return cuda_device(index);
}

void push_range(const char* name) {
  nvtxRangePushA(name);
}
void pop_range() {
  nvtxRangePop();
}

std::string cuda_summary() {
  auto device = cuda_device(0);
  return device.ok() ? (*device)->name() : std::string(without_area(device.status().message()));
}

}  // namespace dlpipe
