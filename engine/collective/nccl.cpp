#include "dlpipe/engine/collective/nccl.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/collective/late_ranks.h"
#include "dlpipe/engine/collective/nccl_abi.h"
#include "dlpipe/engine/collective/nccl_library.h"
#include "dlpipe/engine/collective/pause.h"

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
    if (!failed_.ok()) stop();  // what is under way writes to memory that is the caller's again
    return failed_;
  }

  void abort(std::string_view reason) noexcept override {
    meeting_->abort(reason);
    stop();
  }

  Status close() override {
    DLPIPE_RETURN_IF_ERROR(failed_);
    DLPIPE_RETURN_IF_ERROR(meeting_->close());  // all are here, so that nobody's peer has left
    return nccl(nccl_.comm_destroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
  }

 private:
  /// Rank 0's id reaches the others, then all meet.
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
      // Asked for even where the stream is done: what ended by an error has no bytes.
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

  /// Ends what NCCL does, and waits until the stream no longer touches anybody's memory.
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

}  // namespace dlpipe::engine
