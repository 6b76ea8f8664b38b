// Batches on a device: the same bytes as on the CPU, no slot or twin reused too early, no waiting host.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "dlpipe/device.h"
#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

class DeviceTest : public DatasetTest<DeviceTest> {
 public:
  static void write_datasets() { write_drawn_dataset(*dir_ / "d", {.count = 61, .truncated = {9}}); }

 protected:
  static LoaderOptions options(Device* device) {
    LoaderOptions options;
    options.data = *dir_ / "d";
    options.augment = "resize(24x24) hflip";
    options.batch = 8;
    options.threads = 2;
    options.epochs = 3;
    options.device = device;
    return options;
  }
  static size_t image_bytes(const Batch& batch) {
    return batch.field("image")->spec->sample_bytes() * static_cast<size_t>(batch.capacity);
  }
  static std::vector<uint64_t> cpu_hashes() {
    std::vector<uint64_t> hashes;
    const auto loader = open_loader(options(&cpu_device()));
    while (const auto batch = value_or_throw(loader->next())) {
      hashes.push_back(data::checksum64({batch->field("image")->data, image_bytes(*batch)}, batch->chain));
      throw_if_error(loader->release(*batch));
    }
    return hashes;
  }

  // A trainer on a stream of its own: takes `work` per batch, then looks at the pixels. Never waits on the
  // host.
  static std::vector<uint64_t> device_hashes(SimulatedDevice& device, Loader& loader,
                                             std::chrono::microseconds work) {
    const auto stream = value_or_throw(device.create_stream());
    std::vector<uint64_t> hashes;  // written by the stream's thread
    while (const auto batch = value_or_throw(loader.next())) {
      EXPECT_NE(batch->ready_event, nullptr);
      throw_if_error(device.wait(*stream, *batch->ready_event));
      const std::span<const std::byte> pixels(batch->field("image")->data, image_bytes(*batch));
      device.launch(*stream, "training", {{pixels.data(), pixels.size()}}, {},
                    [&hashes, pixels, work, chain = batch->chain] {
                      std::this_thread::sleep_for(work);
                      hashes.push_back(data::checksum64(pixels, chain));
                    });
      throw_if_error(loader.release(*batch, stream.get()));
    }
    throw_if_error(device.synchronize(*stream));
    expect_no_violations(device);
    return hashes;
  }
};

TEST_F(DeviceTest, BatchesEqualTheCpusWhoeverIsSlow) {
  const auto expected = cpu_hashes();
  ASSERT_EQ(expected.size(), 21u);
  using std::chrono::microseconds;
  for (const int copy_us : {0, 2000}) {
    for (const int work_us : {0, 3000}) {
      for (const int slots : {1, 3}) {
        SimulatedDevice device{microseconds(copy_us)};
        LoaderOptions o = options(&device);
        o.slots = slots;
        const auto loader = open_loader(o);
        EXPECT_EQ(device_hashes(device, *loader, microseconds(work_us)), expected)
            << "copy " << copy_us << " us, work " << work_us << " us, " << slots << " slots";
        EXPECT_EQ(device.copies, 21);
      }
    }
  }
}

// Runs only where a GPU is.
TEST_F(DeviceTest, BatchesOnCudaEqualTheCpus) {
  const auto found = cuda_device(0);
  if (!found.ok()) GTEST_SKIP() << found.status().message();
  Device& device = **found;
  const auto loader = open_loader(options(&device));
  const auto stream = value_or_throw(device.create_stream());
  Buffer back;
  std::vector<uint64_t> hashes;
  while (const auto batch = value_or_throw(loader->next())) {
    const size_t bytes = image_bytes(*batch);
    if (!back) back = value_or_throw(Buffer::allocate(device, bytes, Buffer::Memory::kPinned));
    throw_if_error(device.wait(*stream, *batch->ready_event));
    throw_if_error(
        device.copy_async(back.data(), batch->field("image")->data, bytes, CopyKind::kDeviceToHost, *stream));
    throw_if_error(loader->release(*batch, stream.get()));
    throw_if_error(device.synchronize(*stream));
    hashes.push_back(data::checksum64({back.data(), bytes}, batch->chain));
  }
  EXPECT_EQ(hashes, cpu_hashes());
}

TEST_F(DeviceTest, AConsumerThatHoldsBothTwinsGetsMisuse) {
  SimulatedDevice device;
  const auto loader = open_loader(options(&device));
  const auto first = value_or_throw(loader->next());
  const auto second = value_or_throw(loader->next());
  EXPECT_EQ(loader->next().status().code(), ErrorCode::kMisuse);
  throw_if_error(loader->release(*first));
  const auto third = value_or_throw(loader->next());
  EXPECT_EQ(third->index, 2);
  EXPECT_EQ(loader->release(*first).code(), ErrorCode::kMisuse);
}

// The metadata of a lent batch stays while its slot already holds another one.
TEST_F(DeviceTest, WeightsAndIdsStayWhileTheSlotIsFilledAgain) {
  SimulatedDevice device{std::chrono::microseconds(0)};
  LoaderOptions o = options(&device);
  o.slots = 1;
  const auto loader = open_loader(o);
  const auto cpu = open_loader(options(nullptr));
  for (int i = 0; i < 14; ++i) {
    const auto batch = value_or_throw(loader->next());
    throw_if_error(device.synchronize(*batch->ready_event));
    const std::vector<int64_t> ids(batch->sample_ids.begin(), batch->sample_ids.end());
    const size_t substitutions = batch->substitutions.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the slot is on its next batch by now
    EXPECT_EQ(std::vector<int64_t>(batch->sample_ids.begin(), batch->sample_ids.end()), ids);
    EXPECT_EQ(batch->substitutions.size(), substitutions);
    const auto same = value_or_throw(cpu->next());
    EXPECT_EQ(std::vector<int64_t>(same->sample_ids.begin(), same->sample_ids.end()), ids);
    throw_if_error(cpu->release(*same));
    throw_if_error(loader->release(*batch));
  }
}

TEST_F(DeviceTest, SeekingAndStoppingInMidFlightLosesNothing) {
  SimulatedDevice device{std::chrono::microseconds(500)};
  {
    const auto expected = cpu_hashes();
    const auto loader = open_loader(options(&device));
    const SourceState start = loader->state();
    for (int i = 0; i < 10; ++i) {
      for (int taken = 0; taken < i % 4; ++taken) {
        const auto batch = value_or_throw(loader->next());
        throw_if_error(loader->release(*batch));
      }
      throw_if_error(loader->seek(start));
    }
    EXPECT_EQ(device_hashes(device, *loader, std::chrono::microseconds(0)), expected);
    for (int i = 0; i < 20; ++i) {
      const auto stopped = open_loader(options(&device));
      if (i % 2 == 0) {
        EXPECT_TRUE(value_or_throw(stopped->next()).has_value());
      }
    }
  }
  EXPECT_EQ(device.bytes_held, 0);
}

TEST_F(DeviceTest, ACopyThatFailsEndsTheStream) {
  SimulatedDevice device;
  device.fail_copies = true;
  const auto loader = open_loader(options(&device));
  const auto batch = loader->next();
  ASSERT_FALSE(batch.ok());
  EXPECT_NE(batch.status().message().find("the link is down"), std::string::npos);
}

TEST_F(DeviceTest, TwinsCountAsMemory) {
  SimulatedDevice device;
  const auto on_device = open_loader(options(&device));
  const auto on_cpu = open_loader(options(nullptr));
  EXPECT_EQ(on_device->stats().slot_bytes * 3, on_cpu->stats().slot_bytes * 5);  // three slots and two twins
}

}  // namespace
}  // namespace dlpipe::pipeline
