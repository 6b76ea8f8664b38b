// NCCL and the CUDA driver for tests of engine/collective/nccl.h: ranks are threads of one process, a device's memory is the
// host's, and a stream does nothing until somebody asks for it, so that what is not waited for has not happened.
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/collective/nccl_abi.h"

namespace nccl = dlpipe::engine::nccl;

namespace {

constexpr int kRemoteError = 6;  // ncclRemoteError
constexpr int kInvalid = 4;      // ncclInvalidArgument

/// Of the ranks that hold one id.
struct World {
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> sent;  // (from, to)
  std::map<int, std::map<int, std::vector<float>>> summands;          // of each sum, by rank
  bool is_broken = false;
};

std::mutex everything;  // guards all below
std::map<std::string, std::shared_ptr<World>> worlds;
int ids = 0;

}  // namespace

namespace dlpipe::engine::nccl {
struct CommOf {
  std::shared_ptr<World> world;
  int rank = 0;
  int ranks = 0;
  int sums = 0;  // asked for
};
struct StreamOf {
  std::deque<std::function<bool()>> tasks;  // false: not yet
  bool is_over() {
    while (!tasks.empty() && tasks.front()()) tasks.pop_front();
    return tasks.empty();
  }
};
struct ContextOf {};
}  // namespace dlpipe::engine::nccl

namespace {
thread_local std::vector<std::pair<nccl::Stream, std::function<bool()>>> group;
thread_local bool in_group = false;
nccl::ContextOf context;
}  // namespace

extern "C" {

int ncclGetUniqueId(nccl::UniqueId* id) {
  const std::scoped_lock lock(everything);
  *id = {};
  const std::string text = "world " + std::to_string(++ids);
  std::memcpy(id->bytes.data(), text.data(), text.size());
  worlds[text] = std::make_shared<World>();
  return nccl::kSuccess;
}

int ncclCommInitRank(nccl::Comm* comm, int ranks, nccl::UniqueId id, int rank) {
  const std::scoped_lock lock(everything);
  const auto found = worlds.find(std::string(id.bytes.data()));
  if (found == worlds.end()) return kInvalid;
  *comm = new nccl::CommOf{found->second, rank, ranks};
  return nccl::kSuccess;
}

int ncclCommGetAsyncError(nccl::Comm comm, int* error) {
  const std::scoped_lock lock(everything);
  *error = comm->world->is_broken ? kRemoteError : nccl::kSuccess;
  return nccl::kSuccess;
}

int ncclCommAbort(nccl::Comm comm) {
  const std::scoped_lock lock(everything);
  comm->world->is_broken = true;
  delete comm;
  return nccl::kSuccess;
}

int ncclCommDestroy(nccl::Comm comm) {
  const std::scoped_lock lock(everything);
  delete comm;
  return nccl::kSuccess;
}

int ncclGroupStart() {
  in_group = true;
  return nccl::kSuccess;
}

// A group is done when all of it is, and its sends don't wait for its receives.
int ncclGroupEnd() {
  in_group = false;
  const std::scoped_lock lock(everything);
  for (auto& [stream, task] : group) stream->tasks.push_back(std::move(task));
  group.clear();
  return nccl::kSuccess;
}

int ncclSend(const void* from, size_t count, int type, int peer, nccl::Comm comm, nccl::Stream stream) {
  if (!in_group || type != nccl::kInt8) return kInvalid;
  group.emplace_back(stream, [=, world = comm->world, rank = comm->rank] {
    const auto* const bytes = static_cast<const char*>(from);
    world->sent[{rank, peer}].emplace_back(bytes, bytes + count);
    return true;
  });
  return nccl::kSuccess;
}

int ncclRecv(void* to, size_t count, int type, int peer, nccl::Comm comm, nccl::Stream stream) {
  if (!in_group || type != nccl::kInt8) return kInvalid;
  group.emplace_back(stream, [=, world = comm->world, rank = comm->rank] {
    std::deque<std::vector<char>>& arrived = world->sent[{peer, rank}];
    if (arrived.empty()) return world->is_broken;  // what is aborted ends, with whatever was there
    if (arrived.front().size() == count) std::memcpy(to, arrived.front().data(), count);
    arrived.pop_front();
    return true;
  });
  return nccl::kSuccess;
}

// From the last rank to the first: an order of its own.
int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, nccl::Comm comm,
                  nccl::Stream stream) {
  if (type != nccl::kFloat32 || operation != nccl::kSum) return kInvalid;
  const std::scoped_lock lock(everything);
  stream->tasks.emplace_back(
      [=, world = comm->world, rank = comm->rank, ranks = comm->ranks, sum = comm->sums++] {
        if (world->is_broken) return true;
        auto& summands = world->summands[sum];
        if (!summands.contains(rank)) {
          const auto* const values = static_cast<const float*>(from);
          summands[rank].assign(values, values + count);
        }
        if (summands.size() < static_cast<size_t>(ranks)) return false;
        std::vector<float> total(count, 0);
        for (auto one = summands.rbegin(); one != summands.rend(); ++one) {
          for (size_t i = 0; i < count; ++i) total[i] += one->second[i];
        }
        std::memcpy(to, total.data(), count * sizeof(float));
        return true;
      });
  return nccl::kSuccess;
}

const char* ncclGetErrorString(int error) {
  return error == kRemoteError ? "remote error" : "invalid argument";
}

int cuInit(unsigned) {
  return nccl::kSuccess;
}

int cuDeviceGet(int* device, int number) {
  constexpr int kInvalidDevice = 101, kDevices = 8;
  *device = number;
  return number < kDevices ? nccl::kSuccess : kInvalidDevice;
}

int cuDevicePrimaryCtxRetain(nccl::Context* to, int) {
  *to = &context;
  return nccl::kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  return nccl::kSuccess;
}

int cuCtxSetCurrent(nccl::Context) {
  return nccl::kSuccess;
}

int cuStreamCreate(nccl::Stream* stream, unsigned) {
  *stream = new nccl::StreamOf;
  return nccl::kSuccess;
}

int cuStreamDestroy_v2(nccl::Stream stream) {
  delete stream;
  return nccl::kSuccess;
}

int cuStreamQuery(nccl::Stream stream) {
  const std::scoped_lock lock(everything);
  return stream->is_over() ? nccl::kSuccess : nccl::kNotReady;
}

int cuStreamSynchronize(nccl::Stream stream) {
  for (;;) {
    const std::scoped_lock lock(everything);
    if (stream->is_over()) return nccl::kSuccess;
  }
}

int cuMemAlloc_v2(nccl::DeviceAddress* address, size_t bytes) {
  *address = reinterpret_cast<nccl::DeviceAddress>(new char[bytes]);
  return nccl::kSuccess;
}

int cuMemFree_v2(nccl::DeviceAddress address) {
  delete[] reinterpret_cast<char*>(address);
  return nccl::kSuccess;
}

int cuMemcpyHtoDAsync_v2(nccl::DeviceAddress to, const void* from, size_t bytes, nccl::Stream stream) {
  const std::scoped_lock lock(everything);
  stream->tasks.emplace_back([=] {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return true;
  });
  return nccl::kSuccess;
}

int cuMemcpyDtoHAsync_v2(void* to, nccl::DeviceAddress from, size_t bytes, nccl::Stream stream) {
  const std::scoped_lock lock(everything);
  stream->tasks.emplace_back([=] {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return true;
  });
  return nccl::kSuccess;
}
}
