// Any text as an augmentation expression; what parses is planned and applied to a small image.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dlpipe/augment.h"

namespace dlpipe::augment {
namespace {

void check(std::string_view text) {
  const auto chain = Chain::parse(text);
  if (!chain.ok()) return;
  constexpr int kWidth = 37;
  constexpr int kHeight = 23;
  ChainPlan plan;
  if (!chain->plan({kWidth, kHeight, 3}, {1, 2, 3, 0}, plan).ok()) return;
  constexpr int64_t kMostPixels = 1 << 18;  // a crop may well ask for more
  int64_t most = int64_t{plan.out.width} * plan.out.height;
  for (const OpDraw& draw : plan.draws) most = std::max(most, int64_t{draw.out.width} * draw.out.height);
  if (most > kMostPixels) return;
  const Region& region = plan.source_region;
  const std::vector<uint8_t> source(
      size_t{3} * static_cast<size_t>(region.width) * static_cast<size_t>(region.height), 77);
  std::vector<uint8_t> out(size_t{3} * static_cast<size_t>(plan.out.width) *
                           static_cast<size_t>(plan.out.height));
  ChainScratch scratch;
  (void)chain->apply(
      plan, ConstImageView(source.data(), region.width, region.height, 3, ptrdiff_t{3} * region.width),
      ImageView{out.data(), plan.out.width, plan.out.height, 3, ptrdiff_t{3} * plan.out.width}, scratch);
}

}  // namespace
}  // namespace dlpipe::augment

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::augment::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
