// Do the declarations of nccl_abi.h fit the headers of NCCL and CUDA? Asked by the compiler, on machines that have both.
#include "engine/collective/nccl_abi.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#if __has_include(<nccl.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <nccl.h>
#define DLPIPE_HAS_NCCL_HEADERS 1
#endif

namespace dlpipe::test {
namespace {

#ifdef DLPIPE_HAS_NCCL_HEADERS

using Nccl = engine::nccl::Functions;
using Driver = engine::nccl::DriverFunctions;

/// Passed in the same way: enums are ints here, and their pointers have names of their own.
template <class Mine, class Theirs>
constexpr bool is_like = (sizeof(Mine) == sizeof(Theirs)) &&
                         (std::is_pointer_v<Mine> == std::is_pointer_v<Theirs>)&&(std::is_class_v<Mine> ==
                                                                                  std::is_class_v<Theirs>);

template <class Result, class... Parameters, class TheirResult, class... TheirParameters>
constexpr bool fits(Result (* /*mine*/)(Parameters...), TheirResult (* /*theirs*/)(TheirParameters...)) {
  if constexpr (sizeof...(Parameters) != sizeof...(TheirParameters)) {
    return false;
  } else {
    return is_like<Result, TheirResult> && (is_like<Parameters, TheirParameters> && ...);
  }
}

#define DLPIPE_FITS(mine, theirs) static_assert(fits(decltype(mine){}, decltype(&theirs){}), #theirs)
DLPIPE_FITS(Nccl::get_unique_id, ncclGetUniqueId);
DLPIPE_FITS(Nccl::comm_init_rank, ncclCommInitRank);
DLPIPE_FITS(Nccl::comm_get_async_error, ncclCommGetAsyncError);
DLPIPE_FITS(Nccl::comm_abort, ncclCommAbort);
DLPIPE_FITS(Nccl::comm_destroy, ncclCommDestroy);
DLPIPE_FITS(Nccl::group_start, ncclGroupStart);
DLPIPE_FITS(Nccl::group_end, ncclGroupEnd);
DLPIPE_FITS(Nccl::send, ncclSend);
DLPIPE_FITS(Nccl::recv, ncclRecv);
DLPIPE_FITS(Nccl::all_reduce, ncclAllReduce);
DLPIPE_FITS(Nccl::get_error_string, ncclGetErrorString);
// cuda.h calls the newest version of a function by its plain name.
DLPIPE_FITS(Driver::init, cuInit);
DLPIPE_FITS(Driver::device_get, cuDeviceGet);
DLPIPE_FITS(Driver::primary_context_retain, cuDevicePrimaryCtxRetain);
DLPIPE_FITS(Driver::primary_context_release, cuDevicePrimaryCtxRelease);
DLPIPE_FITS(Driver::context_set_current, cuCtxSetCurrent);
DLPIPE_FITS(Driver::stream_create, cuStreamCreate);
DLPIPE_FITS(Driver::stream_destroy, cuStreamDestroy);
DLPIPE_FITS(Driver::stream_query, cuStreamQuery);
DLPIPE_FITS(Driver::stream_synchronize, cuStreamSynchronize);
DLPIPE_FITS(Driver::memory_allocate, cuMemAlloc);
DLPIPE_FITS(Driver::memory_free, cuMemFree);
DLPIPE_FITS(Driver::copy_to_device, cuMemcpyHtoDAsync);
DLPIPE_FITS(Driver::copy_to_host, cuMemcpyDtoHAsync);
#undef DLPIPE_FITS

TEST(NcclAbi, ConstantsAreThoseOfTheHeaders) {
  EXPECT_EQ(sizeof(engine::nccl::UniqueId), sizeof(ncclUniqueId));
  EXPECT_EQ(engine::nccl::kSuccess, static_cast<int>(ncclSuccess));
  EXPECT_EQ(engine::nccl::kSuccess, static_cast<int>(CUDA_SUCCESS));
  EXPECT_EQ(engine::nccl::kInProgress, static_cast<int>(ncclInProgress));
  EXPECT_EQ(engine::nccl::kInt8, static_cast<int>(ncclInt8));
  EXPECT_EQ(engine::nccl::kFloat32, static_cast<int>(ncclFloat32));
  EXPECT_EQ(engine::nccl::kSum, static_cast<int>(ncclSum));
  EXPECT_EQ(engine::nccl::kNotReady, static_cast<int>(CUDA_ERROR_NOT_READY));
  EXPECT_EQ(engine::nccl::kNonBlocking, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
}

#else

TEST(NcclAbi, ConstantsAreThoseOfTheHeaders) {
  GTEST_SKIP() << "no nccl.h and cuda.h where this was compiled";
}

#endif

}  // namespace
}  // namespace dlpipe::test
