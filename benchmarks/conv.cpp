// How fast are convolutions and batch norms of ResNet's shapes, one pass at a time, with --benchmark_filter
// to choose? GFLOP/s are those of the direct convolution, per second of wall time ("GFLOPs") and per second
// of processor time ("GFLOPs_core", which other programs on the machine disturb less). One argument of the
// program's own: --threads=T.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/parallel.h"
#include "engine/ops/window.h"

namespace {

using namespace dlpipe;
using namespace dlpipe::engine;

struct Case {
  int64_t n, h, c, o;
  int k, stride;
};
// ResNet-18 and -50 at 224, ResNet-18 with a 3x3 stem at 32.
constexpr Case kCases[] = {
    {32, 224, 3, 64, 7, 2},    {32, 56, 64, 64, 3, 1},     {32, 56, 64, 128, 3, 2},
    {32, 28, 128, 128, 3, 1},  {32, 14, 256, 256, 3, 1},   {32, 7, 512, 512, 3, 1},
    {32, 56, 64, 128, 1, 2},   {32, 56, 64, 256, 1, 1},    {32, 56, 256, 64, 1, 1},
    {32, 14, 1024, 256, 1, 1}, {32, 14, 256, 1024, 1, 1},  {32, 7, 2048, 512, 1, 1},
    {32, 7, 512, 2048, 1, 1},  {32, 14, 1024, 2048, 1, 2}, {128, 32, 3, 64, 3, 1},
    {128, 32, 64, 64, 3, 1},   {128, 16, 128, 128, 3, 1},  {128, 8, 256, 256, 3, 1},
    {128, 4, 512, 512, 3, 1},
};
enum Pass { kForward, kData, kWeights };
constexpr const char* kPassNames[] = {"forward", "data", "weights"};

double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Tensor noise(const Shape& shape, DType dtype) {
  Tensor x = Tensor::empty(shape);
  uint32_t state = 1;
  float* values = x.data<float>();
  for (int64_t i = 0; i < x.elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = static_cast<float>(state >> 8) / (1 << 23) - 1.0f;
  }
  return cast(x, dtype);
}

void run_conv(benchmark::State& state, const Case& c, Pass pass, DType dtype) {
  const NoGrad no_grad;
  const OpRow& row = *OpRegistry::builtin().get("conv2d");
  const int padding = c.k / 2;
  const Attrs attrs = Conv2dAttrs{.stride = {c.stride, c.stride}, .padding = {padding, padding}};
  Tensor x = noise({c.n, c.h, c.h, c.c}, dtype);
  const Tensor weight = noise({c.o, c.c, c.k, c.k}, dtype);
  const Tensor y = apply(row, {x, weight, Tensor()}, attrs)[0];
  const std::array<TensorSpec, 2> specs = {x.spec(), weight.spec()};
  x = reorder(x, row.record->choose_layout(specs, attrs).inputs);
  const Tensor dx = Tensor::empty(x.spec());
  const Tensor dweight = Tensor::empty(weight.spec());
  const std::vector<Tensor> inputs = {x, weight, Tensor()};
  std::vector<Tensor> outputs = {Tensor::empty(y.spec())};
  std::vector<Tensor> grads = {pass == kData ? dx : Tensor(), pass == kWeights ? dweight : Tensor(),
                               Tensor()};
  const std::vector<Tensor> grad_outputs = {y};
  const Kernels& kernels = *row.kernels[static_cast<int>(Backend::kCpu)];
  const auto once = [&] {
    if (pass == kForward) {
      kernels.forward({inputs, outputs, attrs});
    } else {
      kernels.backward({inputs, {}, grad_outputs, grads, attrs});
    }
  };
  once();
  const double begin = process_seconds();
  for (auto _ : state) once();
  const double flops = conv2d_shape(x.shape(), weight.shape(), attrs.as<Conv2dAttrs>()).flops() * 1e-9 *
                       static_cast<double>(state.iterations());
  state.counters["GFLOPs"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
  state.counters["GFLOPs_core"] = flops / (process_seconds() - begin);
}

void run_batch_norm(benchmark::State& state, const Shape& shape, bool residual, bool backward,
                    Layout layout) {
  const NoGrad no_grad;
  const OpRow& row = *OpRegistry::builtin().get("batch_norm");
  const int64_t channels = shape[3];
  const Tensor x = reorder(noise(shape, DType::kF32), layout);
  const Tensor ones = Tensor::full({channels}, 1.0);
  const std::vector<Tensor> inputs = {
      x, ones, Tensor::zeros({channels}), Tensor::zeros({channels}), ones.clone(), residual ? x : Tensor()};
  const Attrs attrs = BatchNormAttrs{.relu = true};
  std::vector<Tensor> outputs = {Tensor::empty(x.spec()), Tensor::empty({channels}),
                                 Tensor::empty({channels})};
  std::vector<Tensor> grads = {Tensor::empty(x.spec()),
                               Tensor::empty({channels}),
                               Tensor::empty({channels}),
                               Tensor(),
                               Tensor(),
                               residual ? Tensor::empty(x.spec()) : Tensor()};
  const std::vector<Tensor> grad_outputs = {x};
  const Kernels& kernels = *row.kernels[row.kernels[1] != nullptr ? 1 : 0];
  kernels.forward({inputs, outputs, attrs});
  const double begin = process_seconds();
  for (auto _ : state) {
    if (backward) {
      kernels.backward({inputs, outputs, grad_outputs, grads, attrs});
    } else {
      kernels.forward({inputs, outputs, attrs});
    }
  }
  const double bytes = static_cast<double>(x.size_bytes()) * 1e-9 * static_cast<double>(state.iterations());
  state.counters["GB_x"] = benchmark::Counter(bytes, benchmark::Counter::kIsRate);
  state.counters["GB_x_core"] = bytes / (process_seconds() - begin);
}

void register_all() {
  for (const Case& c : kCases) {
    for (Pass pass : {kForward, kData, kWeights}) {
      if (pass == kData && c.c == 3) continue;
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        const std::string name = concat("conv/", dtype_name(dtype), "/", c.n, "x", c.h, "x", c.c, "_o", c.o,
                                        "_k", c.k, "_s", c.stride, "/", kPassNames[pass]);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) { run_conv(state, c, pass, dtype); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  for (Layout layout : {Layout::kPlain, Layout::kBlocked8}) {
    for (bool residual : {false, true}) {
      for (bool backward : {false, true}) {
        const std::string name = concat("batch_norm/", layout_name(layout), residual ? "/residual" : "/relu",
                                        backward ? "/backward" : "/forward");
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) {
                                       run_batch_norm(state, {32, 56, 56, 64}, residual, backward, layout);
                                     })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    constexpr std::string_view kThreads = "--threads=";
    if (std::string_view(argv[i]).starts_with(kThreads)) {
      set_engine_threads(std::atoi(argv[i] + kThreads.size()));
      std::swap(argv[i], argv[--argc]);
    }
  }
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
