// The C functions of NCCL (2.7 or newer) and of the CUDA driver that nccl.cpp loads. Internal to
// engine/collective and its tests: nccl_abi_test.cpp compares it with nccl.h and cuda.h if they are installed.
#pragma once

#include <array>
#include <cstddef>

namespace dlpipe::engine::nccl {

struct UniqueId {
  std::array<char, 128> bytes;
};
using Comm = struct CommOf*;
using Stream = struct StreamOf*;
using Context = struct ContextOf*;
using DeviceAddress = unsigned long long;

constexpr int kSuccess = 0;           // of both
constexpr int kInProgress = 7;        // ncclInProgress
constexpr int kInt8 = 0;              // ncclInt8
constexpr int kFloat32 = 7;           // ncclFloat32
constexpr int kSum = 0;               // ncclSum
constexpr int kNotReady = 600;        // CUDA_ERROR_NOT_READY
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

struct Functions {
  int (*get_unique_id)(UniqueId*);
  int (*comm_init_rank)(Comm*, int ranks, UniqueId, int rank);
  int (*comm_get_async_error)(Comm, int* error);
  int (*comm_abort)(Comm);
  int (*comm_destroy)(Comm);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void* from, size_t count, int type, int peer, Comm, Stream);
  int (*recv)(void* to, size_t count, int type, int peer, Comm, Stream);
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, Comm, Stream);
  const char* (*get_error_string)(int error);
};

struct DriverFunctions {
  int (*init)(unsigned flags);
  int (*device_get)(int* device, int number);
  int (*primary_context_retain)(Context*, int device);
  int (*primary_context_release)(int device);
  int (*context_set_current)(Context);
  int (*stream_create)(Stream*, unsigned flags);
  int (*stream_destroy)(Stream);
  int (*stream_query)(Stream);
  int (*stream_synchronize)(Stream);
  int (*memory_allocate)(DeviceAddress*, size_t bytes);
  int (*memory_free)(DeviceAddress);
  int (*copy_to_device)(DeviceAddress to, const void* from, size_t bytes, Stream);
  int (*copy_to_host)(void* to, DeviceAddress from, size_t bytes, Stream);
};

}  // namespace dlpipe::engine::nccl
