#include "dlpipe/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace dlpipe {
namespace {

TEST(CpuDevice, GivesAlignedMemoryAndCopies) {
  for (auto memory : {Buffer::Memory::kDevice, Buffer::Memory::kPinned}) {
    auto buffer = Buffer::allocate(cpu_device(), 1000, memory);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    std::vector<std::byte> source(1000, std::byte{7});
    auto stream = cpu_device().create_stream();
    ASSERT_TRUE(
        cpu_device().copy_async(buffer->data(), source.data(), 1000, CopyKind::kHostToHost, **stream).ok());
    EXPECT_EQ(std::memcmp(buffer->data(), source.data(), 1000), 0);
    bool called = false;
    ASSERT_TRUE(cpu_device().on_complete(**stream, [&] { called = true; }).ok());
    EXPECT_TRUE(called);
  }
}

TEST(CpuDevice, OutOfMemoryIsAValueThatSaysHowMuchWasAsked) {
  const auto buffer = Buffer::allocate(cpu_device(), std::numeric_limits<size_t>::max() / 2);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(buffer.status().message().find("8192.0 PiB"), std::string::npos) << buffer.status().message();
}

TEST(Buffer, MovesOwnership) {
  Buffer a = value_or_throw(Buffer::allocate(cpu_device(), 64));
  std::byte* data = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  b = Buffer();
  EXPECT_FALSE(b);
}

TEST(FindDevice, KnowsCpuAndExplainsTheRest) {
  EXPECT_EQ(*find_device("cpu"), &cpu_device());
  EXPECT_EQ(find_device("tpu").status().code(), ErrorCode::kMisuse);
  const auto cuda = find_device("cuda");
  if (!cuda.ok()) {
    EXPECT_NE(cuda.status().message().find("--device cpu"), std::string::npos) << cuda.status().message();
  }
}

// Runs only where a GPU is: page-locked memory, a copy there and back, event order, the host callback.
TEST(CudaDevice, CopiesThereAndBack) {
  const auto found = cuda_device(0);
  if (!found.ok()) GTEST_SKIP() << found.status().message();
  Device& device = **found;
  constexpr size_t kBytes = 1 << 20;
  Buffer pinned = value_or_throw(Buffer::allocate(device, kBytes, Buffer::Memory::kPinned));
  Buffer back = value_or_throw(Buffer::allocate(device, kBytes, Buffer::Memory::kPinned));
  Buffer twin = value_or_throw(Buffer::allocate(device, kBytes));
  for (size_t i = 0; i < kBytes; ++i) pinned.data()[i] = static_cast<std::byte>(i * 7);
  auto copy_stream = value_or_throw(device.create_stream());
  auto compute_stream = value_or_throw(device.create_stream());
  auto event = value_or_throw(device.create_event());
  throw_if_error(
      device.copy_async(twin.data(), pinned.data(), kBytes, CopyKind::kHostToDevice, *copy_stream));
  throw_if_error(device.record(*event, *copy_stream));
  throw_if_error(device.wait(*compute_stream, *event));
  throw_if_error(
      device.copy_async(back.data(), twin.data(), kBytes, CopyKind::kDeviceToHost, *compute_stream));
  throw_if_error(device.synchronize(*compute_stream));
  EXPECT_EQ(std::memcmp(back.data(), pinned.data(), kBytes), 0);
  EXPECT_TRUE(value_or_throw(device.is_complete(*event)));
}

}  // namespace
}  // namespace dlpipe
