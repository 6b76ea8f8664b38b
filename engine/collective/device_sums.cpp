#include "dlpipe/engine/collective/device_sums.h"

#include <span>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/collective/nccl_abi.h"
#include "dlpipe/engine/collective/nccl_library.h"

namespace dlpipe::engine {
namespace {

class NcclSums final : public DeviceSums {
 public:
  explicit NcclSums(DeviceSumsOptions options) : options_(std::move(options)) {}
  NcclSums(const NcclSums&) = delete;
  NcclSums& operator=(const NcclSums&) = delete;
  ~NcclSums() override { abort(); }

  /// What a rank can do by itself.
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
  // Who can't says so before the others wait for it in NCCL, which waits for ever.
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
