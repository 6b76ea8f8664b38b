// Where a device's time goes, on the simulated device with time that the test steers: every part has its
// time, and all of them add up to the wall's to the nanosecond.
#include "run/record/device_ledger.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dlpipe/device.h"
#include "engine/core/device_memory.h"
#include "run/record/report.h"
#include "run/train/step/train_step.h"
#include "tests/base/device/violations.h"
#include "tests/engine/cuda/simulated.h"
#include "tests/run/fake_source.h"
#include "tests/run/small_net.h"

namespace dlpipe::run {
namespace {

using std::chrono::nanoseconds;
using test::FakeSource;

// Lives as long as the streams that threads have on it. Time is steered by the names of work: "9000" takes 9
// us, a copy 2 us, any kernel 1 us.
SimulatedDevice& steered_device() {
  static SimulatedDevice device(std::chrono::microseconds(2));
  static const bool once = [] {
    device.steer_time([](const std::string& name) {
      if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
        return nanoseconds(std::stoll(name));
      return nanoseconds(name == "a copy" ? 2000 : 1000);
    });
    return true;
  }();
  (void)once;
  return device;
}

int64_t ns(const LedgerEntry& entry, Span span) {
  return entry.span_ns[static_cast<size_t>(span)];
}

class DeviceTime : public testing::Test {
 protected:
  void TearDown() override {
    engine::synchronize(device_);
    expect_no_violations(device_);
  }
  void work(int64_t time_ns) {
    device_.launch(engine::engine_stream(device_), std::to_string(time_ns), {}, {});
  }

  SimulatedDevice& device_ = steered_device();
  engine::SimulatedCuda kernels_{device_};
};

// Three steps under way, each with a copy on another stream, which the second waits for and the third
// doesn't.
TEST_F(DeviceTime, GoesToWhatTheDeviceDid) {
  DeviceLedger ledger(device_, 2);
  Stream& stream = engine::engine_stream(device_);
  const auto copies = value_or_throw(device_.create_stream());
  const auto begins = value_or_throw(device_.create_event()), ready = value_or_throw(device_.create_event());
  const auto step = [&](int64_t host_ns, int64_t decode_ns, int64_t copy_ns) {
    device_.host_works(nanoseconds(host_ns));
    ledger.begin_step();
    device_.host_works(nanoseconds(decode_ns));
    throw_if_error(device_.record(*begins, *copies));
    device_.launch(*copies, std::to_string(copy_ns), {}, {});
    throw_if_error(device_.record(*ready, *copies));
    throw_if_error(device_.wait(stream, *begins));
    ledger.mark(Span::kDataIdle);
    throw_if_error(device_.wait(stream, *ready));
    ledger.mark(Span::kHostToDevice);
    work(5000);
    ledger.mark(Span::kForward);
    work(9000);
    ledger.mark(Span::kBackward);
    work(700);
    ledger.end_step(Span::kOptimizer);
  };
  step(0, 300, 100);  // the first of a row counts for nothing
  step(0, 0, 60000);  // asked for at once: the copy is what it waits for
  engine::synchronize(device_);
  ledger.take_step();
  EXPECT_EQ(ledger.times().steps, 0);
  ledger.take_step();
  step(1500, 800, 40);  // the device waits for the host, its batch and the copy
  engine::synchronize(device_);
  ledger.take_step();
  const LedgerEntry& entry = ledger.times().entry;
  EXPECT_EQ(ledger.times().steps, 2);
  EXPECT_EQ(ns(entry, Span::kLaunchGap), 1500);
  EXPECT_EQ(ns(entry, Span::kDataIdle), 800);
  // The second step's copy began with the first step's: 14,700 ns of it had gone by.
  EXPECT_EQ(ns(entry, Span::kHostToDevice), 60000 + 100 - 100 - 14700 + 40);
  EXPECT_EQ(ns(entry, Span::kForward), 2 * 5000);
  EXPECT_EQ(ns(entry, Span::kBackward), 2 * 9000);
  EXPECT_EQ(ns(entry, Span::kOptimizer), 2 * 700);
  EXPECT_EQ(entry.unaccounted_ns(), 0);
  EXPECT_GT(entry.wall_ns, 0);
}

TEST_F(DeviceTime, AStepAfterSomethingElseIsLeftOut) {
  DeviceLedger ledger(device_, 2);
  const auto step = [&] {
    ledger.begin_step();
    work(100);
    ledger.end_step(Span::kForward);
    engine::synchronize(device_);
    ledger.take_step();
  };
  step();
  step();
  ledger.interrupt();
  work(1'000'000);  // a validation
  step();
  step();
  EXPECT_EQ(ledger.times().steps, 2);
  EXPECT_EQ(ledger.times().entry.wall_ns, 200);
}

// Launches that are under way at once have times of their own.
TEST_F(DeviceTime, ACapturedPartsMarksAreEachLaunchs) {
  DeviceLedger ledger(device_, 2);
  Stream& stream = engine::engine_stream(device_);
  throw_if_error(device_.begin_capture(stream));
  ledger.begin_capture();
  work(5000);
  ledger.mark(Span::kForward);
  work(9000);
  ledger.mark(Span::kBackward);
  const DeviceLedger::Marks marks = ledger.end_capture();
  const auto graph = value_or_throw(device_.end_capture(stream));
  const auto step = [&](int64_t optimizer_ns) {
    ledger.begin_step();
    ledger.replay(marks, *graph);
    throw_if_error(device_.launch(*graph, stream));
    work(optimizer_ns);
    ledger.end_step(Span::kOptimizer);
  };
  step(10);
  step(20);
  engine::synchronize(device_);
  ledger.take_step();
  step(40);
  engine::synchronize(device_);
  ledger.take_step();
  ledger.take_step();
  const LedgerEntry& entry = ledger.times().entry;
  EXPECT_EQ(ns(entry, Span::kForward), 2 * 5000);
  EXPECT_EQ(ns(entry, Span::kBackward), 2 * 9000);
  EXPECT_EQ(ns(entry, Span::kOptimizer), 20 + 40);
  EXPECT_EQ(entry.unaccounted_ns(), 0);
}

// A FakeSource's batches on the device, by a copy stream as the pipeline's.
class StagedSource final : public BatchSource {
 public:
  StagedSource(SimulatedDevice& device, const test::FakeOptions& options)
      : device_(device), source_(options), copies_(value_or_throw(device.create_stream())) {
    for (auto* event : {&begins_, &ready_, &released_}) *event = value_or_throw(device.create_event());
  }
  std::span<const FieldSpec> schema() const override { return source_.schema(); }
  int64_t batches_per_epoch() const override { return source_.batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return source_.samples_per_epoch(); }
  Result<std::optional<Batch>> next() override {
    Batch batch = *value_or_throw(source_.next());
    // One twin: the host waits for its reader, which is a wait for data.
    throw_if_error(device_.synchronize(*released_));
    throw_if_error(device_.synchronize(*copies_));
    buffers_.clear();
    throw_if_error(device_.record(*begins_, *copies_));
    for (BatchField& field : batch.fields) {
      const size_t bytes = field.spec->sample_bytes() * static_cast<size_t>(batch.capacity);
      field.data = static_cast<std::byte*>(copy(field.data, bytes));
    }
    batch.device_weight = static_cast<const float*>(copy(batch.weight.data(), batch.weight.size_bytes()));
    throw_if_error(device_.record(*ready_, *copies_));
    batch.copy_event = begins_.get();
    batch.ready_event = ready_.get();
    return std::optional<Batch>(batch);
  }
  Status release(const Batch& batch, Stream* stream) override {
    DLPIPE_RETURN_IF_ERROR(device_.record(*released_, *stream));
    return source_.release(batch);
  }
  SourceState state() const override { return source_.state(); }
  Status seek(const SourceState& state) override { return source_.seek(state); }
  SourceStats stats() const override { return source_.stats(); }

 private:
  void* copy(const void* from, size_t bytes) {
    buffers_.push_back(value_or_throw(Buffer::allocate(device_, bytes, Buffer::Memory::kPinned)));
    std::memcpy(buffers_.back().data(), from, bytes);
    const void* const pinned = buffers_.back().data();
    buffers_.push_back(value_or_throw(Buffer::allocate(device_, bytes, Buffer::Memory::kDevice)));
    throw_if_error(
        device_.copy_async(buffers_.back().data(), pinned, bytes, CopyKind::kHostToDevice, *copies_));
    return buffers_.back().data();
  }
  SimulatedDevice& device_;
  FakeSource source_;
  std::unique_ptr<Stream> copies_;
  std::unique_ptr<Event> begins_, ready_, released_;
  std::vector<Buffer> buffers_;
};

DeviceTimes times_of_steps(SimulatedDevice& device, TrainStepOptions options) {
  const auto net = test::small_net(8, 4, 1, 0);
  options.loss = *find_loss("cross_entropy");
  net->to(device);
  const auto optimizer = (*engine::find_optimizer("sgd"))->build(net->parameters(), {});
  const auto step = TrainStep::create(*net, *optimizer, nullptr, options);
  net->train();
  StagedSource source(device, {});
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_NE(step->run(source, i, 0.05), nullptr);
    while (step->take_outcome()) continue;
    device.host_works(std::chrono::milliseconds(1));  // longer than the device's step
  }
  while (step->take_outcome(true)) continue;
  EXPECT_EQ(step->graph_reason(), options.graph == GraphUse::kOff ? "--graph off" : "");
  return step->device_times();
}

TEST_F(DeviceTime, OfTrainingStepsAddsUp) {
  TrainStepOptions options;
  options.graph = GraphUse::kOff;
  const DeviceTimes eager = times_of_steps(device_, options);
  options.graph = GraphUse::kOn;
  const DeviceTimes graph = times_of_steps(device_, options);
  for (const DeviceTimes* times : {&eager, &graph}) {
    EXPECT_GE(times->steps, 6);
    EXPECT_EQ(times->entry.unaccounted_ns(), 0);
    EXPECT_TRUE(report_ledger(times->entry).adds_up());
    // Three copies per batch of 2,000 ns, which an idle device waits for once it has set the learning rate.
    EXPECT_EQ(ns(times->entry, Span::kHostToDevice), times->steps * (3 * 2000 - 1000));
    for (const Span span : {Span::kForward, Span::kBackward, Span::kOptimizer, Span::kLaunchGap})
      EXPECT_GT(ns(times->entry, span), 0) << span_name(span);
  }
  // The same kernels, whoever launches them.
  EXPECT_EQ(graph.steps, eager.steps);
  EXPECT_EQ(ns(graph.entry, Span::kBackward), ns(eager.entry, Span::kBackward));
  EXPECT_EQ(ns(graph.entry, Span::kOptimizer), ns(eager.entry, Span::kOptimizer));
}

}  // namespace
}  // namespace dlpipe::run
