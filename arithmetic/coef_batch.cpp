#include "arithmetic/coef_batch.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace dlpipe::coef {

static_assert(std::is_trivially_copyable_v<CoefSample> &&
              std::is_trivially_default_constructible_v<CoefSample>);
static_assert(alignof(CoefSample) <= kCoefAlignment && sizeof(CoefSample) % kCoefAlignment == 0);

CoefHead coef_head(std::byte* tiles, size_t capacity) {
  auto* const samples = reinterpret_cast<CoefSample*>(tiles);
  auto* const begins = reinterpret_cast<uint32_t*>(tiles + capacity * sizeof(CoefSample));
  return {{samples, capacity}, {begins, (capacity + 1) * static_cast<size_t>(kCoefSteps)}};
}

static int64_t blocks_of(const CoefSample& sample, int step) {
  const auto blocks = [](int64_t items, int64_t per_block) { return (items + per_block - 1) / per_block; };
  // At least one block for the first kernel, because it clears the sample's status.
  if (sample.components == 0) return step == kWeights ? 1 : 0;
  switch (step) {
    case kWeights:
      return blocks(int64_t{sample.across.count} + sample.down.count, kWeightsPerBlock);
    case kTiles:
      return sample.tile_count;
    case kColors:
      return blocks(int64_t{sample.width} * sample.height, kPixelsPerBlock);
    case kFirstPass:
      return blocks(int64_t{sample.between_row()} * sample.between_rows(), kBytesPerBlock);
    case kSecondPass:
      return blocks(int64_t{sample.across.count} * sample.down.count * sample.channels, kBytesPerBlock);
    default:
      return 0;
  }
}

Result<CoefWork> number_coef_blocks(const CoefHead& head) {
  CoefWork work;
  const size_t count = head.samples.size();
  for (size_t i = 0; i < count; ++i) {
    CoefSample& sample = head.samples[i];
    if (sample.components == 0) sample.scratch_bytes = 0;
    sample.scratch = work.scratch_bytes;
    work.scratch_bytes += sample.scratch_bytes;
    for (size_t step = 0; step < size_t{kCoefSteps}; ++step) {
      head.begins[step * (count + 1) + i] = static_cast<uint32_t>(work.blocks[step]);
      work.blocks[step] += blocks_of(sample, static_cast<int>(step));
    }
  }
  for (size_t step = 0; step < size_t{kCoefSteps}; ++step) {
    head.begins[step * (count + 1) + count] = static_cast<uint32_t>(work.blocks[step]);
    if (work.blocks[step] > std::numeric_limits<int32_t>::max())
      return Status(ErrorCode::kUnsupported,
                    "[coef] the batch's crops are too large in total; use a smaller --batch");
  }
  return work;
}

}  // namespace dlpipe::coef
