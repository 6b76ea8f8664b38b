#include "dlpipe/engine/collective/nccl_library.h"

#include "dlpipe/base/text.h"
#include "dlpipe/engine/collective/loaded_library.h"

namespace dlpipe::engine::nccl {

Status find(const std::string& name, Functions& to) {
  LoadedLibrary library("NCCL", {name.c_str()}, RTLD_LOCAL, "");
  library.find("ncclGetUniqueId", to.get_unique_id);
  library.find("ncclCommInitRank", to.comm_init_rank);
  library.find("ncclCommGetAsyncError", to.comm_get_async_error);
  library.find("ncclCommAbort", to.comm_abort);
  library.find("ncclCommDestroy", to.comm_destroy);
  library.find("ncclGroupStart", to.group_start);
  library.find("ncclGroupEnd", to.group_end);
  library.find("ncclSend", to.send);
  library.find("ncclRecv", to.recv);
  library.find("ncclAllReduce", to.all_reduce);
  library.find("ncclGetErrorString", to.get_error_string);
  return library.status();
}

static Status find(const std::string& name, DriverFunctions& to) {
  LoadedLibrary library("NCCL", {name.c_str()}, RTLD_LOCAL, "");
  library.find("cuInit", to.init);
  library.find("cuDeviceGet", to.device_get);
  library.find("cuDevicePrimaryCtxRetain", to.primary_context_retain);
  library.find("cuDevicePrimaryCtxRelease_v2", to.primary_context_release);
  library.find("cuCtxSetCurrent", to.context_set_current);
  library.find("cuStreamCreate", to.stream_create);
  library.find("cuStreamDestroy_v2", to.stream_destroy);
  library.find("cuStreamQuery", to.stream_query);
  library.find("cuStreamSynchronize", to.stream_synchronize);
  library.find("cuMemAlloc_v2", to.memory_allocate);
  library.find("cuMemFree_v2", to.memory_free);
  library.find("cuMemcpyHtoDAsync_v2", to.copy_to_device);
  library.find("cuMemcpyDtoHAsync_v2", to.copy_to_host);
  return library.status();
}

Status driver_status(int error, std::string_view what) {
  if (error == kSuccess) return {};
  return {ErrorCode::kUnsupported, concat("[ranks] NCCL: ", what, " answers CUDA error ", error)};
}

DeviceContext::~DeviceContext() {
  if (context_ != nullptr) (void)driver_.primary_context_release(device_);
}

Status DeviceContext::open(const std::string& driver_library, int device) {
  DLPIPE_RETURN_IF_ERROR(find(driver_library, driver_));
  DLPIPE_RETURN_IF_ERROR(driver_status(driver_.init(0), "cuInit"));
  DLPIPE_RETURN_IF_ERROR(driver_status(driver_.device_get(&device_, device), "cuDeviceGet"));
  DLPIPE_RETURN_IF_ERROR(
      driver_status(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain"));
  return driver_status(driver_.context_set_current(context_), "cuCtxSetCurrent");
}

}  // namespace dlpipe::engine::nccl
