// How long does the resize of one RandomResizedCrop take? One thread, pixels in the cache, crops of
// ImageNet's usual sizes to 224x224, and the twin by plain loops beside it. `benchmarks/resize_pillow.py`
// times Pillow on the same.
#include <benchmark/benchmark.h>

#include <vector>

#include "augment/resize.h"
#include "dlpipe/random.h"

namespace {

using namespace dlpipe;
using namespace dlpipe::augment;

struct Images {
  std::vector<uint8_t> source;
  std::vector<uint8_t> out;
  ConstImageView in_view;
  ImageView out_view;

  Images(int width, int height, int out_size, int channels)
      : source(size_t(width) * size_t(height) * size_t(channels)),
        out(size_t(out_size) * size_t(out_size) * size_t(channels)),
        in_view(source.data(), width, height, channels, ptrdiff_t{width} * channels),
        out_view{out.data(), out_size, out_size, channels, ptrdiff_t{out_size} * channels} {
    RandomStream rng(1, 2);
    for (uint8_t& value : source) value = static_cast<uint8_t>(rng.next_u32() >> 24);
  }
};

template <bool kScalar>
void resize_to_224(benchmark::State& state) {
  const int width = static_cast<int>(state.range(0));
  const int height = static_cast<int>(state.range(1));
  const int channels = static_cast<int>(state.range(2));
  Images images(width, height, 224, channels);
  const ResizeGeometry geometry = whole_resize(width, height, 224, 224);
  std::vector<std::byte> work;
  for (auto _ : state) {
    if constexpr (kScalar) {
      resize_scalar(geometry, images.in_view, images.out_view, false);
    } else {
      resize(geometry, images.in_view, images.out_view, false, work);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"w", "h", "c"})->Unit(benchmark::kMicrosecond);
  for (const auto& [width, height] : {std::pair{150, 150},
                                      {224, 224},
                                      {300, 300},
                                      {350, 350},
                                      {350, 280},
                                      {280, 350},
                                      {400, 350},
                                      {500, 375},
                                      {375, 500},
                                      {1000, 800}}) {
    benchmark->Args({width, height, 3});
  }
  benchmark->Args({350, 350, 1});
  benchmark->Args({350, 350, 4});
}

BENCHMARK(resize_to_224<false>)->Name("resize")->Apply(sizes);
BENCHMARK(resize_to_224<true>)->Name("resize_scalar")->Apply(sizes);

}  // namespace
