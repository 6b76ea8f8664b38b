#include "engine/collective/nccl.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/collective/nccl_abi.h"
#include "engine/collective/transport.h"

namespace dlpipe::engine::nccl {

/// kUnsupported if the library, or one of its functions, is missing.
Status find(const std::string& library, Functions& to);

/// kUnsupported names the function that returned a CUDA error.
Status driver_status(int error, std::string_view what);

/// A device's primary context, retained for this object's lifetime and current in the thread that opened it.
class DeviceContext {
 public:
  DeviceContext() = default;
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  /// kUnsupported if the driver, one of its functions, or the device is missing.
  Status open(const std::string& driver_library, int device);
  const DriverFunctions& driver() const { return driver_; }

 private:
  DriverFunctions driver_{};
  Context context_ = nullptr;
  int device_ = 0;
};

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
  return {ErrorCode::kUnsupported, concat("[ranks] NCCL: ", what, " returned CUDA error ", error)};
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

namespace dlpipe::engine {
namespace {

using Clock = std::chrono::steady_clock;

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::unique_ptr<Transport> meeting, const NcclOptions& options)
      : meeting_(std::move(meeting)), options_(options) {}
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  ~NcclTransport() override {
    stop();
    for (const nccl::DeviceAddress buffer : {out_, in_}) {
      if (buffer != 0) (void)driver_.memory_free(buffer);
    }
    if (stream_ != nullptr) (void)driver_.stream_destroy(stream_);
  }

  Status open() {
    DLPIPE_RETURN_IF_ERROR(nccl::find(options_.nccl_library, nccl_));
    DLPIPE_RETURN_IF_ERROR(context_.open(options_.driver_library, options_.device));
    DLPIPE_RETURN_IF_ERROR(driver(driver_.stream_create(&stream_, nccl::kNonBlocking), "cuStreamCreate"));
    for (nccl::DeviceAddress* const buffer : {&out_, &in_}) {
      DLPIPE_RETURN_IF_ERROR(driver(driver_.memory_allocate(buffer, options_.piece_bytes), "cuMemAlloc"));
    }
    return join();
  }

  int rank() const override { return meeting_->rank(); }
  int world() const override { return meeting_->world(); }

  Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) override {
    while (failed_.ok() && (!out.empty() || !in.empty())) {
      const auto now_out = out.first(std::min(out.size(), options_.piece_bytes));
      const auto now_in = in.first(std::min(in.size(), options_.piece_bytes));
      failed_ = exchange_piece(peer, now_out, now_in);
      out = out.subspan(now_out.size());
      in = in.subspan(now_in.size());
    }
    if (!failed_.ok()) stop();  // else pending operations could write to memory that is the caller's again
    return failed_;
  }

  void abort(std::string_view reason) noexcept override {
    meeting_->abort(reason);
    stop();
  }

  Status close() override {
    DLPIPE_RETURN_IF_ERROR(failed_);
    DLPIPE_RETURN_IF_ERROR(meeting_->close());  // waits for all ranks, so that none leaves too early
    return nccl(nccl_.comm_destroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
  }

 private:
  /// Sends rank 0's id to the others, then connects all.
  Status join() {
    nccl::UniqueId id{};
    const auto bytes = std::as_writable_bytes(std::span(id.bytes));
    if (rank() == 0) {
      DLPIPE_RETURN_IF_ERROR(nccl(nccl_.get_unique_id(&id), "ncclGetUniqueId"));
      for (int peer = 1; peer < world(); ++peer) DLPIPE_RETURN_IF_ERROR(meeting_->exchange(peer, bytes, {}));
    } else {
      DLPIPE_RETURN_IF_ERROR(meeting_->exchange(0, {}, bytes));
    }
    return nccl(nccl_.comm_init_rank(&comm_, world(), id, rank()), "ncclCommInitRank");
  }

  Status exchange_piece(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
    if (comm_ == nullptr) return {ErrorCode::kCancelled, "this rank has stopped"};
    if (!out.empty()) {
      DLPIPE_RETURN_IF_ERROR(
          driver(driver_.copy_to_device(out_, out.data(), out.size(), stream_), "cuMemcpyHtoDAsync"));
    }
    DLPIPE_RETURN_IF_ERROR(nccl(nccl_.group_start(), "ncclGroupStart"));
    Status status;
    if (!out.empty()) {
      const auto* const from = reinterpret_cast<const void*>(out_);
      status = nccl(nccl_.send(from, out.size(), nccl::kInt8, peer, comm_, stream_), "ncclSend");
    }
    if (status.ok() && !in.empty()) {
      auto* const to = reinterpret_cast<void*>(in_);
      status = nccl(nccl_.recv(to, in.size(), nccl::kInt8, peer, comm_, stream_), "ncclRecv");
    }
    const Status ended = nccl(nccl_.group_end(), "ncclGroupEnd");
    DLPIPE_RETURN_IF_ERROR(status);
    DLPIPE_RETURN_IF_ERROR(ended);
    if (!in.empty()) {
      DLPIPE_RETURN_IF_ERROR(
          driver(driver_.copy_to_host(in.data(), in_, in.size(), stream_), "cuMemcpyDtoHAsync"));
    }
    return wait(peer);
  }

  Status wait(int peer) {
    const auto begin = Clock::now();
    const std::chrono::duration<double> most(options_.peer_timeout_s);
    for (Pause pause;; pause()) {
      const int error = driver_.stream_query(stream_);
      // Checked even if the stream is done: an operation that failed has no data.
      int late = nccl::kSuccess;
      DLPIPE_RETURN_IF_ERROR(nccl(nccl_.comm_get_async_error(comm_, &late), "ncclCommGetAsyncError"));
      if (late != nccl::kInProgress) {
        DLPIPE_RETURN_IF_ERROR(nccl(late, concat("exchange with rank ", peer)));
      }
      if (error == nccl::kSuccess) return {};
      if (error != nccl::kNotReady) return driver(error, "cuStreamQuery");
      if (stops_waiting()) return {ErrorCode::kCancelled, "this rank has stopped"};
      if (Clock::now() - begin >= most) return LateRanks(world()).gone(peer, options_.peer_timeout_s);
    }
  }

  /// Aborts NCCL's operations, and waits until the stream no longer accesses the caller's memory.
  void stop() noexcept {
    if (comm_ == nullptr) return;
    (void)nccl_.comm_abort(std::exchange(comm_, nullptr));
    (void)driver_.stream_synchronize(stream_);
  }

  Status nccl(int error, std::string_view what) const {
    if (error == nccl::kSuccess) return {};
    return {ErrorCode::kIo, concat("NCCL: ", what, ": ", nccl_.get_error_string(error))};
  }
  static Status driver(int error, std::string_view what) { return nccl::driver_status(error, what); }

  const std::unique_ptr<Transport> meeting_;
  const NcclOptions options_;
  nccl::Functions nccl_{};
  nccl::DeviceContext context_;
  const nccl::DriverFunctions& driver_ = context_.driver();
  nccl::Comm comm_ = nullptr;
  nccl::Stream stream_ = nullptr;
  nccl::DeviceAddress out_ = 0, in_ = 0;
  Status failed_;
};

}  // namespace

Result<std::unique_ptr<Transport>> open_nccl_transport(std::unique_ptr<Transport> meeting,
                                                       const NcclOptions& options) {
  auto transport = std::make_unique<NcclTransport>(std::move(meeting), options);
  DLPIPE_RETURN_IF_ERROR(transport->open());
  return std::unique_ptr<Transport>(std::move(transport));
}

namespace {

class NcclSums final : public DeviceSums {
 public:
  explicit NcclSums(DeviceSumsOptions options) : options_(std::move(options)) {}
  NcclSums(const NcclSums&) = delete;
  NcclSums& operator=(const NcclSums&) = delete;
  ~NcclSums() override { abort(); }

  /// The steps that a rank can do alone.
  Status load() {
    DLPIPE_RETURN_IF_ERROR(nccl::find(options_.nccl_library, nccl_));
    return context_.open(options_.driver_library, options_.device);
  }
  Status new_id(nccl::UniqueId& id) { return status_of(nccl_.get_unique_id(&id), "ncclGetUniqueId"); }
  Status join(int world, const nccl::UniqueId& id, int rank) {
    return status_of(nccl_.comm_init_rank(&comm_, world, id, rank), "ncclCommInitRank");
  }

  Status all_reduce(float* values, size_t count, Stream& stream) override {
    if (comm_ == nullptr) return {ErrorCode::kCancelled, "[ranks] this rank has stopped"};
    return status_of(nccl_.all_reduce(values, values, count, nccl::kFloat32, nccl::kSum, comm_,
                                      static_cast<nccl::Stream>(stream.native())),
                     "ncclAllReduce");
  }

  Status check() override {
    if (comm_ == nullptr) return {ErrorCode::kCancelled, "[ranks] this rank has stopped"};
    int late = nccl::kSuccess;
    DLPIPE_RETURN_IF_ERROR(status_of(nccl_.comm_get_async_error(comm_, &late), "ncclCommGetAsyncError"));
    return late == nccl::kInProgress ? Status() : status_of(late, "a sum over the ranks");
  }

  void abort() noexcept override {
    if (comm_ != nullptr) (void)nccl_.comm_abort(std::exchange(comm_, nullptr));
  }

 private:
  Status status_of(int error, std::string_view what) const {
    if (error == nccl::kSuccess) return {};
    return {ErrorCode::kIo, concat("[ranks] NCCL: ", what, ": ", nccl_.get_error_string(error))};
  }

  const DeviceSumsOptions options_;
  nccl::Functions nccl_{};
  nccl::DeviceContext context_;
  nccl::Comm comm_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<DeviceSums>> open_nccl_sums(Collective& ranks, const DeviceSumsOptions& options) {
  auto sums = std::make_unique<NcclSums>(options);
  nccl::UniqueId id{};
  Status mine = sums->load();
  if (mine.ok() && ranks.rank() == 0) mine = sums->new_id(id);
  // A rank that failed reports it now: later, the others would wait for it in NCCL forever.
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          ranks.gather(mine.message(), "NCCL on each rank"));
  DLPIPE_RETURN_IF_ERROR(mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty())
      return Status(ErrorCode::kUnsupported, concat("[ranks] rank ", rank, ": ", all[rank]));
  }
  DLPIPE_RETURN_IF_ERROR(ranks.broadcast(std::as_writable_bytes(std::span(id.bytes)), 0, "NCCL's id").wait());
  DLPIPE_RETURN_IF_ERROR(sums->join(ranks.world(), id, ranks.rank()));
  return std::unique_ptr<DeviceSums>(std::move(sums));
}

}  // namespace dlpipe::engine
