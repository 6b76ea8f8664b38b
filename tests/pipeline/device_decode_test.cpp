// Coefficients on their way to a device that decodes them (the simulated one, with CUDA's kernels as plain
// C++): the host's batches to the bit, whatever is stored, whoever is slow, and the host's opinion of records
// that are corrupt.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "engine/cuda/coef/coef_kernels.h"
#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

using std::chrono::microseconds;

/// What a test compares of a batch.
struct Seen {
  uint64_t fields = 0;  // all bytes, wherever they lie
  uint64_t rest = 0;    // ids, weights, mixes, chain
  std::vector<Substitution> substitutions;

  friend bool operator==(const Seen& a, const Seen& b) {
    const auto same = [](const Substitution& x, const Substitution& y) {
      return x.position == y.position && x.bad_sample == y.bad_sample && x.used_sample == y.used_sample &&
             x.attempt == y.attempt && x.reason == y.reason;
    };
    return a.fields == b.fields && a.rest == b.rest &&
           std::ranges::equal(a.substitutions, b.substitutions, same);
  }
};

std::span<const std::byte> bytes_of(const BatchField& field, const Batch& batch) {
  return {field.data, field.spec->sample_bytes() * static_cast<size_t>(batch.capacity)};
}

Seen seen_of(const Batch& batch) {
  Batch rest = batch;
  rest.fields.clear();
  return {0, batch_hash(rest), {batch.substitutions.begin(), batch.substitutions.end()}};
}

uint64_t hash_of(const std::vector<std::span<const std::byte>>& fields) {
  uint64_t hash = 0;
  for (const auto& field : fields) hash = data::checksum64(field, hash);
  return hash;
}

std::vector<std::span<const std::byte>> fields_of(const Batch& batch) {
  std::vector<std::span<const std::byte>> fields;
  for (const BatchField& field : batch.fields) fields.push_back(bytes_of(field, batch));
  return fields;
}

std::vector<Seen> on_host(LoaderOptions options) {
  options.device = nullptr;
  const auto loader = open_loader(options);
  std::vector<Seen> all;
  while (const auto batch = value_or_throw(loader->next())) {
    all.push_back(seen_of(*batch));
    all.back().fields = hash_of(fields_of(*batch));
    throw_if_error(loader->release(*batch));
  }
  return all;
}

/// A trainer on a stream of its own that never waits on the host; it takes `work` a batch.
std::vector<Seen> on_device(SimulatedDevice& device, Loader& loader, microseconds work = microseconds(0)) {
  const auto stream = value_or_throw(device.create_stream());
  std::vector<Seen> all;
  std::vector<uint64_t> hashes;  // written by the stream's thread
  while (const auto batch = value_or_throw(loader.next())) {
    all.push_back(seen_of(*batch));
    throw_if_error(device.wait(*stream, *batch->ready_event));
    std::vector<SimulatedDevice::Range> ranges;
    for (const auto& field : fields_of(*batch)) ranges.push_back({field.data(), field.size()});
    device.launch(*stream, "training", ranges, {}, [&hashes, fields = fields_of(*batch), work] {
      std::this_thread::sleep_for(work);
      hashes.push_back(hash_of(fields));
    });
    throw_if_error(loader.release(*batch, stream.get()));
  }
  throw_if_error(device.synchronize(*stream));
  for (size_t i = 0; i < all.size(); ++i) all[i].fields = hashes[i];
  return all;
}

/// Lives as long as the streams that threads have on it.
SimulatedDevice& quick() {
  static SimulatedDevice device{microseconds(0)};
  return device;
}
SimulatedDevice& slow() {
  static SimulatedDevice device{microseconds(700)};
  return device;
}

/// All kernels as one piece of the device's work, which says what it touches.
template <SimulatedDevice& (*kDevice)()>
void decode_on(const coef::CoefBatch& batch, Stream& stream) {
  const size_t status_bytes = static_cast<size_t>(batch.capacity) * sizeof(int32_t);
  kDevice().launch(stream, "decoding", {{batch.tiles, batch.tile_bytes}},
                   {{batch.scratch, batch.work.scratch_bytes},
                    {batch.pixels, batch.pixel_bytes},
                    {batch.statuses, status_bytes}},
                   [batch] { engine::cuda::decode_coefficients(batch); });
}

class DeviceDecodeTest : public DatasetTest<DeviceDecodeTest> {
 public:
  static void write_datasets() {
    const auto write = [](const char* name, DrawnOptions options) {
      options.count = 45;
      options.layout = data::ImageLayout::kCoefficients;
      write_drawn_dataset(*dir_ / name, options);
    };
    write("d", {});
    write("mixed", {.truncated = {9, 30}, .jpegs = {3, 4, 20}, .coded = {0, 7, 21}});
    write("corrupt", {.jpegs = {5}, .damaged = {2, 11, 12, 40}});
    write("large", {.large = {13}});
    write("boxes", {.object_fields = true});
    flip_bit(*dir_ / "mixed", 17);
  }

 protected:
  void TearDown() override {
    for (SimulatedDevice* device : {&quick(), &slow()}) expect_no_violations(*device);
  }

  /// With the device's kernels there.
  static LoaderOptions options(const char* data, SimulatedDevice& device) {
    LoaderOptions options;
    options.data = *dir_ / data;
    options.augment = "rrc(24) hflip";
    options.batch = 8;
    options.threads = 2;
    options.epochs = 2;
    options.device = &device;
    options.coef_decode = &device == &slow() ? decode_on<slow> : decode_on<quick>;
    return options;
  }
  static int64_t items(const Loader& loader, std::string_view stage) {
    for (const StageStats& row : loader.stats().stages) {
      if (row.name == stage) return row.items;
    }
    return -1;
  }
};

TEST_F(DeviceDecodeTest, BatchesEqualTheHostsWhoeverIsSlow) {
  for (SimulatedDevice* device : {&quick(), &slow()}) {
    LoaderOptions o = options("d", *device);
    const std::vector<Seen> expected = on_host(o);
    ASSERT_EQ(expected.size(), 10u);
    for (const int threads : {1, 3}) {
      for (const int slots : {1, 3}) {
        o.threads = threads;
        o.slots = slots;
        const auto loader = open_loader(o);
        EXPECT_EQ(loader->decode_reason(), "");
        const microseconds work(slots == 3 ? 3000 : 0);
        EXPECT_EQ(on_device(*device, *loader, work), expected)
            << threads << " threads, " << slots << " slots";
        EXPECT_EQ(items(*loader, "selector"), 80);
        EXPECT_EQ(items(*loader, "decoder"), 0);
        EXPECT_EQ(items(*loader, "augmenter"), 0);
      }
    }
  }
}

// What a chain may do; "hflip rrc" is two steps where the flip is drawn, and a frame is no crop.
TEST_F(DeviceDecodeTest, EveryChainThatFitsAndThoseThatOftenDont) {
  struct Case {
    const char* augment;
    int64_t least, most;  // samples sent, of 90
  };
  for (const Case& one : {Case{"resize(32) center_crop(24) hflip", 90, 90},
                          {"resize(31x47) hflip", 90, 90},
                          {"center_crop(40)", 90, 90},
                          {"center_crop(40) hflip(1)", 90, 90},
                          {"pad_crop(30,8) hflip", 30, 89},
                          {"hflip rrc(24)", 25, 65},
                          {"center_crop(120)", 5, 80},
                          {"rrc(24) cutout(8,p=0.5)", 25, 65}}) {
    LoaderOptions o = options("d", quick());
    o.augment = one.augment;
    o.last = LastBatch::kKeep;
    const auto loader = open_loader(o);
    EXPECT_EQ(on_device(quick(), *loader), on_host(o)) << one.augment;
    EXPECT_GE(items(*loader, "selector"), one.least) << one.augment;
    EXPECT_LE(items(*loader, "selector"), one.most) << one.augment;
    EXPECT_EQ(items(*loader, "selector") + items(*loader, "decoder"), 90) << one.augment;
  }
}

/// What is planned when the record is there is sent all the same.
TEST_F(DeviceDecodeTest, CropsByBoxesAreDecodedThereToo) {
  LoaderOptions o = options("boxes", quick());
  o.augment = "ssd_crop(overlaps=0:0.1) resize(24x24) hflip";
  o.fields = {"image"};
  const auto loader = open_loader(o);
  EXPECT_EQ(loader->decode_reason(), "");
  EXPECT_EQ(on_device(quick(), *loader), on_host(o));
  EXPECT_EQ(items(*loader, "selector"), 80);
}

TEST_F(DeviceDecodeTest, WhatTheHostHasToDecodeStandsInTheSameBatches) {
  for (const int channels : {1, 3}) {
    LoaderOptions o = options("mixed", slow());
    o.last = LastBatch::kKeep;
    o.channels = channels;
    o.mixup = 0.3;
    o.cutmix = 1;
    const auto loader = open_loader(o);
    const std::vector<Seen> seen = on_device(slow(), *loader);
    EXPECT_EQ(seen, on_host(o));
    EXPECT_GT(items(*loader, "selector"), 60);
    EXPECT_GE(items(*loader, "decoder"), 2 * 6);  // 3 JPEGs and 3 in coded tiles; stand-ins are sent
  }
}

// Only the device can find them: the batch goes back, and what is lent is what the host would have made of
// it.
TEST_F(DeviceDecodeTest, DamagedTilesAreReplacedOrDroppedAsOnTheHost) {
  for (SimulatedDevice* device : {&quick(), &slow()}) {
    for (const OnBadRecord on_bad : {OnBadRecord::kSubstitute, OnBadRecord::kDrop}) {
      for (const int threads : {1, 3}) {
        LoaderOptions o = options("corrupt", *device);
        o.on_bad = on_bad;
        o.last = LastBatch::kKeep;
        o.threads = threads;
        o.mixup = 1;
        o.epochs = 3;
        o.quarantine_file = *dir_ / "host.txt";
        const std::vector<Seen> expected = on_host(o);
        o.quarantine_file = *dir_ / "device.txt";
        const auto loader = open_loader(o);
        EXPECT_EQ(on_device(*device, *loader, microseconds(500)), expected);
        EXPECT_EQ(loader->state().bad_samples, (std::vector<int64_t>{2, 11, 12, 40}));
        EXPECT_EQ(data::file_text(*dir_ / "device.txt"), data::file_text(*dir_ / "host.txt"));
        EXPECT_NE(data::file_text(*dir_ / "device.txt").find("corrupt"), std::string::npos);
        EXPECT_GE(items(*loader, "selector"), 3 * 41);
        EXPECT_GE(items(*loader, "decoder"), 3 * 5);  // once more
        std::filesystem::remove(*dir_ / "host.txt");
        std::filesystem::remove(*dir_ / "device.txt");
      }
    }
  }
}

TEST_F(DeviceDecodeTest, ADamagedTileThatEndsTheStreamSaysWhatItSaysOnTheHost) {
  LoaderOptions o = options("corrupt", slow());
  o.on_bad = OnBadRecord::kStop;
  const Status there = read_to_error(*open_loader(o));
  o.device = nullptr;
  const Status here = read_to_error(*open_loader(o));
  EXPECT_EQ(there.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(there.message(), here.message());
  o = options("corrupt", slow());
  o.max_bad = 2;
  const Status too_many = read_to_error(*open_loader(o));
  o.device = nullptr;
  EXPECT_EQ(too_many.message(), read_to_error(*open_loader(o)).message());
}

TEST_F(DeviceDecodeTest, SeekingAndStoppingInMidFlightLosesNothing) {
  const int64_t held = slow().bytes_held;
  {
    LoaderOptions o = options("corrupt", slow());
    o.threads = 3;
    const std::vector<Seen> expected = on_host(o);
    const auto loader = open_loader(o);
    const SourceState start = loader->state();
    for (int i = 0; i < 12; ++i) {
      for (int taken = 0; taken < i % 4; ++taken) {
        const auto batch = value_or_throw(loader->next());
        throw_if_error(loader->release(*batch));
      }
      if (i % 3 == 0) std::this_thread::sleep_for(microseconds(i * 400));
      throw_if_error(loader->seek(start));
    }
    EXPECT_EQ(on_device(slow(), *loader), expected);
    SourceState middle = start;
    for (int i = 0; i < 20; ++i) {
      const auto stopped = open_loader(o);
      if (i % 2 == 0) {
        const auto batch = value_or_throw(stopped->next());
        throw_if_error(stopped->release(*batch));
        middle = stopped->state();
      }
    }
    // Where a host began, a device goes on.
    o.threads = 1;
    const auto resumed = open_loader(o);
    throw_if_error(resumed->seek(middle));
    EXPECT_EQ(on_device(slow(), *resumed), std::vector<Seen>(expected.begin() + 1, expected.end()));
  }
  EXPECT_EQ(slow().bytes_held, held);
}

TEST_F(DeviceDecodeTest, WhatTheTileMemoryDoesNotHoldTheHostDecodes) {
  LoaderOptions o = options("large", quick());
  o.batch = 2;
  o.augment = "resize(24x24)";
  const auto loader = open_loader(o);
  EXPECT_EQ(on_device(quick(), *loader), on_host(o));
  EXPECT_EQ(items(*loader, "decoder"), 2) << "the large one, once per epoch";
}

TEST_F(DeviceDecodeTest, WhyTheHostDecodesIsSaid) {
  const auto reason = [](const LoaderOptions& o) {
    LoaderOptions asked = o;
    asked.decode = Decode::kDevice;
    const auto refused = Loader::open(asked);
    EXPECT_EQ(refused.status().code(), ErrorCode::kMisuse);
    const auto loader = open_loader(o);
    EXPECT_EQ(items(*loader, "selector"), -1);
    EXPECT_EQ(refused.status().message(),
              "[loader] --decode device is not possible: " + loader->decode_reason() +
                  "; --decode auto decodes on the CPU instead");
    return loader->decode_reason();
  };
  LoaderOptions o = options("d", quick());
  o.coef_decode = nullptr;
  EXPECT_EQ(reason(o), "simulated has no kernels for it");
  o = options("d", quick());
  o.hash_pixels = true;
  EXPECT_EQ(reason(o), "the pixels are hashed (--receipt pixels)");
  o = options("d", quick());
  o.augment = "rrc(24) cutout(8,p=1)";
  EXPECT_NE(reason(o).find("does more than crop, resize and then flip"), std::string::npos);
  write_drawn_dataset(*dir_ / "png", {.count = 9, .layout = data::ImageLayout::kPng});
  EXPECT_NE(reason(options("png", quick())).find("layout png"), std::string::npos);

  o = options("d", quick());
  o.decode = Decode::kHost;
  const auto host = open_loader(o);
  EXPECT_EQ(host->decode_reason(), "");
  EXPECT_EQ(on_device(quick(), *host), on_host(o));
  EXPECT_EQ(items(*host, "selector"), -1);
  o.decode = Decode::kDevice;
  EXPECT_EQ(open_loader(o)->decode_reason(), "");
  o.device = nullptr;
  EXPECT_NE(Loader::open(o).status().message().find("there is no device"), std::string::npos);
}

TEST_F(DeviceDecodeTest, ADeviceWithoutMemoryForItNamesTheOption) {
  LoaderOptions o = options("d", quick());
  const auto fits = open_loader(o);
  quick().memory_bytes = quick().bytes_held + fits->stats().slot_bytes - 50'000;
  const auto loader = Loader::open(o);
  quick().memory_bytes = int64_t{1} << 40;
  ASSERT_FALSE(loader.ok());
  EXPECT_NE(loader.status().message().find("--decode host"), std::string::npos) << loader.status().message();
}

// The order is watched: kernels in a stream that nobody waits for are seen, on every run.
TEST_F(DeviceDecodeTest, APlantedOrderingProblemIsFound) {
  static SimulatedDevice device{microseconds(0)};
  static const std::unique_ptr<Stream> other = value_or_throw(device.create_stream());
  LoaderOptions o = options("d", device);
  o.coef_decode = [](const coef::CoefBatch& batch, Stream& stream) {
    device.launch(*other, "decoding", {{batch.tiles, batch.tile_bytes}}, {{batch.pixels, batch.pixel_bytes}});
    const size_t bytes = static_cast<size_t>(batch.capacity) * sizeof(int32_t);
    device.launch(stream, "statuses", {}, {{batch.statuses, bytes}},
                  [to = batch.statuses, bytes] { std::memset(to, 0, bytes); });
  };
  {
    const auto loader = open_loader(o);
    const auto batch = value_or_throw(loader->next());
    throw_if_error(device.synchronize(*other));
  }
  const std::vector<std::string> violations = device.take_violations();
  ASSERT_FALSE(violations.empty());
  EXPECT_NE(violations.front().find("without waiting for"), std::string::npos) << violations.front();
}

}  // namespace
}  // namespace dlpipe::pipeline
