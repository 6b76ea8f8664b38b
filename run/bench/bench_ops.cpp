#include <algorithm>
#include <array>
#include <cstring>

#include "base/counters.h"
#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/device_memory.h"
#include "engine/core/parallel.h"
#include "engine/ops/records.h"
#include "run/bench/bench.h"
#include "run/config/values.h"
#include "run/record/kernels.h"

namespace dlpipe::run {

engine::Roofline measure_roofline(Device& device, DType dtype, const RooflineSizes& sizes) {
  if (device.is_host()) return engine::measure_roofline(dtype);
  constexpr int kRounds = 5;
  const engine::NoGrad no_grad;
  const engine::Tensor a = engine::Tensor::full({sizes.side, sizes.side}, 0.5, dtype, device);
  const engine::Tensor large = engine::Tensor::full({sizes.floats}, 1.0, DType::kF32, device);
  const auto seconds_of = [&](const auto& work) {
    engine::synchronize(device);
    const int64_t begin = now_ns();
    work();
    engine::synchronize(device);
    return static_cast<double>(now_ns() - begin) * 1e-9;
  };
  const auto side = static_cast<double>(sizes.side);
  const double flops = 2.0 * side * side * side;
  const double bytes = 2.0 * static_cast<double>(sizes.floats) * sizeof(float);
  engine::Roofline best{.dtype = dtype};
  for (int i = 0; i < kRounds; ++i) {
    best.flops_per_s = std::max(best.flops_per_s, flops / seconds_of([&] { (void)engine::matmul(a, a); }));
    best.bytes_per_s = std::max(best.bytes_per_s, bytes / seconds_of([&] { (void)large.clone(); }));
  }
  return best;
}

namespace {

using engine::OpCost;
using engine::OpSample;
using engine::Tensor;

/// Random floats in [sample.low, sample.high), or integers in [0, int_high). Floats have the dtype `low` if the op `narrows`.
Tensor draw_input(const OpSample& sample, size_t i, bool narrows, DType low, Device& device) {
  const engine::TensorSpec& spec = sample.inputs[i];
  Tensor wide = Tensor::empty(spec.shape, is_floating(spec.dtype) ? DType::kF32 : spec.dtype);
  RandomStream random(1, i);
  for (int64_t k = 0; k < wide.elements(); ++k) {
    if (wide.dtype() == DType::kF32) {
      wide.data<float>()[k] = static_cast<float>(sample.low + (sample.high - sample.low) * random.uniform());
    } else if (wide.dtype() == DType::kI64) {
      wide.data<int64_t>()[k] = random.below(static_cast<uint32_t>(sample.int_high));
    } else {
      static_cast<uint8_t*>(wide.raw())[k] = static_cast<uint8_t>(random.below(256));
    }
  }
  const engine::NoGrad no_grad;
  if (wide.dtype() == DType::kF32 && narrows) wide = engine::cast(wide, low);
  return wide.to(device);
}

/// Runs one op on one sample repeatedly.
class OpBench {
 public:
  OpBench(const engine::OpRow& row, const OpSample& sample, DType low, Device& device)
      : row_(row), sample_(sample) {
    const engine::Autocast autocast = row.record->autocast;
    const bool narrows = autocast == engine::Autocast::kLow || autocast == engine::Autocast::kFollow;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      inputs_.push_back(draw_input(sample, i, narrows, low, device));
      if (is_floating(inputs_.back().dtype()) &&
          (row.record->differentiable & engine::bit(static_cast<int>(i))) != 0)
        inputs_.back().set_requires_grad(true);
    }
  }

  /// Runs both directions for `seconds`, at least three times, after one run that does not count.
  std::vector<OpRate> run(double seconds) {
    constexpr int kFewest = 3;
    run_once();
    std::vector<OpCost> all;
    const int64_t begin = now_ns();
    for (int i = 0; i < kFewest || static_cast<double>(now_ns() - begin) * 1e-9 < seconds; ++i) {
      for (OpCost& cost : run_once()) all.push_back(std::move(cost));
    }
    std::vector<OpRate> rates;
    for (const bool backward : {false, true}) {
      std::vector<OpCost> of;
      std::copy_if(all.begin(), all.end(), std::back_inserter(of),
                   [&](const OpCost& cost) { return cost.backward == backward; });
      if (of.empty()) continue;
      const auto middle = of.begin() + static_cast<ptrdiff_t>(of.size() / 2);
      std::nth_element(of.begin(), middle, of.end(),
                       [](const OpCost& a, const OpCost& b) { return a.ns < b.ns; });
      rates.push_back({sample_.name, *middle, ""});
    }
    return rates;
  }

 private:
  /// The mean cost of the op's own calls in each direction, without reorders of images for it.
  std::vector<OpCost> run_once() {
    const engine::OpProfile profile;
    Tensor y = engine::apply(row_, inputs_, sample_.attrs).at(0);
    if (y.requires_grad()) y.backward(Tensor::full(y.shape(), 1.0, y.dtype(), y.device()));
    std::vector<OpCost> own;
    for (OpCost& cost : profile.costs()) {
      if (cost.op != row_.record->name) continue;
      const auto calls = static_cast<double>(cost.calls);
      cost.ns /= cost.calls;
      cost.flops /= calls;
      cost.bytes /= calls;
      own.push_back(std::move(cost));
    }
    for (Tensor& input : inputs_) input.set_grad(Tensor());
    return own;
  }

  const engine::OpRow& row_;
  const OpSample& sample_;
  std::vector<Tensor> inputs_;
};

OpRate without_numbers(const engine::OpRow& row, const OpSample& sample, std::string why) {
  OpRate rate;
  rate.name = sample.name;
  rate.cost.op = row.record->name;
  rate.note = std::move(why);
  return rate;
}

std::vector<OpSample> samples_of(const engine::OpRecord& record, bool quick) {
  if (!quick) return engine::bench_samples(record);
  return record.samples != nullptr ? record.samples() : std::vector<OpSample>();
}

}  // namespace

double roofline_share(const OpCost& cost, const engine::Roofline& roofline) {
  const double least = std::max(cost.flops / roofline.flops_per_s, cost.bytes / roofline.bytes_per_s);
  return least / (static_cast<double>(std::max<int64_t>(cost.ns, 1)) * 1e-9);
}

BenchOpsReport bench_ops(const BenchOpsOptions& given, const Registries& registries) {
  BenchOpsReport report;
  BenchOpsOptions& options = report.options = given;
  if (options.threads == 0) options.threads = available_threads();
  engine::set_engine_threads(options.threads);
  use_kernels(options.kernels);
  Device& device = *value_or_throw(registries.find_device(options.device));
  report.device = device.name();
  const DType low = value_or_throw(parse_dtype(options.dtype));
  const engine::UseTf32 tf32(take_tf32(options.tf32, device));
  const engine::UseCudnn cudnn(value_or_throw(take_cudnn(options.no_cudnn, device)));
  report.roofline =
      measure_roofline(device, low, options.quick ? RooflineSizes{256, 1 << 16} : RooflineSizes());

  std::vector<std::pair<const engine::OpRow*, OpSample>> all;
  for (const engine::OpRow* row : registries.ops.records()) {
    if (!matches_glob(row->name(), options.ops)) continue;
    for (OpSample& sample : samples_of(*row->record, options.quick)) all.emplace_back(row, std::move(sample));
  }
  if (all.empty()) refuse("bench", "no op's name matches --ops ", options.ops);
  for (const auto& [row, sample] : all) {
    try {
      OpBench bench(*row, sample, low, device);
      std::vector<OpRate> rates = bench.run(options.seconds / static_cast<double>(all.size()));
      if (rates.empty()) rates.push_back(without_numbers(*row, sample, "a view: nothing is computed"));
      for (OpRate& rate : rates) report.rates.push_back(std::move(rate));
    } catch (const Error& error) {  // an op that this device does not support does not affect the others
      if (error.code() != ErrorCode::kUnsupported) throw;
      report.rates.push_back(without_numbers(*row, sample, error.what()));
    }
  }
  return report;
}

namespace {

class CopyBench {
 public:
  CopyBench(Device& device, double seconds_a_rate)
      : device_(device), seconds_(seconds_a_rate), stream_(value_or_throw(device.create_stream())) {}

  void copy(void* to, const void* from, int64_t bytes, CopyKind kind) {
    throw_if_error(device_.copy_async(to, from, static_cast<size_t>(bytes), kind, *stream_));
    throw_if_error(device_.synchronize(*stream_));
  }

  double rate(void* to, const void* from, int64_t bytes, CopyKind kind) {
    std::vector<double> rates;
    const int64_t begin = now_ns();
    constexpr size_t kFewest = 3;
    while (rates.size() < kFewest || static_cast<double>(now_ns() - begin) * 1e-9 < seconds_) {
      const int64_t copy_begin = now_ns();
      copy(to, from, bytes, kind);
      rates.push_back(static_cast<double>(bytes) / (static_cast<double>(now_ns() - copy_begin) * 1e-9));
    }
    const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
    std::nth_element(rates.begin(), middle, rates.end());
    return *middle;
  }

 private:
  Device& device_;
  double seconds_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

std::vector<CopyRate> bench_copies(Device& device, double seconds) {
  constexpr std::array<int64_t, 5> kSizes = {int64_t{4} << 10, int64_t{64} << 10, int64_t{1} << 20,
                                             int64_t{16} << 20, int64_t{256} << 20};
  constexpr int kRatesASize = 4;
  const auto largest = static_cast<size_t>(kSizes.back());
  const Buffer there = value_or_throw(Buffer::allocate(device, largest));
  const Buffer pinned = value_or_throw(Buffer::allocate(device, largest, Buffer::Memory::kPinned));
  std::vector<std::byte> pageable(largest);
  CopyBench bench(device, seconds / (kSizes.size() * kRatesASize));
  // Memory that was never written maps to the kernel's page of zeros, which is read from a cache; the first write has to
  // allocate a page.
  std::memset(pinned.data(), 1, largest);
  bench.copy(there.data(), pinned.data(), kSizes.back(), CopyKind::kHostToDevice);
  std::vector<CopyRate> rates;
  for (const int64_t bytes : kSizes) {
    CopyRate rate;
    rate.bytes = bytes;
    rate.pinned_to_device = bench.rate(there.data(), pinned.data(), bytes, CopyKind::kHostToDevice);
    rate.pinned_to_host = bench.rate(pinned.data(), there.data(), bytes, CopyKind::kDeviceToHost);
    rate.pageable_to_device = bench.rate(there.data(), pageable.data(), bytes, CopyKind::kHostToDevice);
    rate.pageable_to_host = bench.rate(pageable.data(), there.data(), bytes, CopyKind::kDeviceToHost);
    rates.push_back(rate);
  }
  return rates;
}

}  // namespace dlpipe::run
