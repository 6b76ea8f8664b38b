#include "dlpipe/pipeline/stages/batcher.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/mixing.h"

namespace dlpipe::pipeline {

bool Batcher::done(Slot& slot, int64_t count) {
  // Releases this portion's writes and, for the last one, acquires all others'.
  if (slot.remaining.fetch_sub(count, std::memory_order_acq_rel) != count) return false;
  finish(slot);
  return true;
}

// One thread's work, while the others are at the next batches.
static void mix_into_numbers(Slot& slot) {
  const Setup& setup = slot.setup();
  for (int64_t i = 0; i < slot.meta.range.count; ++i) {
    const SampleMix& mix = slot.meta.prep.mix[static_cast<size_t>(i)];
    std::byte* const out = slot.sample(setup.image_field, i);
    const uint8_t* const pixels = slot.image(i).data;
    if (slot.meta.weight[static_cast<size_t>(i)] == 0) {
      std::memset(out, 0, setup.schema[static_cast<size_t>(setup.image_field)].sample_bytes());
    } else if (mix.partner < 0) {
      setup.floats->convert(pixels, out);
    } else {
      setup.floats->convert_mixed(pixels, slot.image(mix.partner).data, mix, out);
    }
  }
}

void Batcher::finish(Slot& slot) {
  const Setup& setup = slot.setup();
  const int64_t count = slot.meta.range.count;
  const int64_t capacity = setup.options.batch;
  for (size_t f = 0; f < setup.schema.size() && count < capacity; ++f) {
    if (setup.schema[f].ragged) continue;
    const size_t padding = setup.schema[f].sample_bytes() * static_cast<size_t>(capacity - count);
    std::memset(slot.sample(static_cast<int>(f), count), 0, padding);
  }
  slot.join_ragged();
  std::copy(slot.meta.weight.begin(), slot.meta.weight.end(), slot.memory().weight());
  std::vector<SampleMix>& mixes = slot.meta.prep.mix;
  if (setup.mixing.is_on()) {
    draw_mixes(setup.mixing, setup.options.seed, slot.meta.range, setup.image_size, slot.meta.weight, mixes);
    std::copy(mixes.begin(), mixes.end(), slot.memory().mixes());
  }
  if (slot.has_bytes_beside()) mix_into_numbers(slot);
  // Stable: several bad samples of one position stand in the order of the attempts.
  std::stable_sort(slot.meta.substitutions.begin(), slot.meta.substitutions.end(),
                   [](const Substitution& a, const Substitution& b) { return a.position < b.position; });
  const std::span hashes(slot.hashes.data(), static_cast<size_t>(count));
  slot.meta.hash = data::checksum64(std::as_bytes(hashes), static_cast<uint64_t>(count));
  static_assert(sizeof(SampleMix) == 6 * sizeof(int32_t), "bytes between its members would be hashed");
  if (!mixes.empty()) slot.meta.hash = data::checksum64(std::as_bytes(std::span(mixes)), slot.meta.hash);
}

}  // namespace dlpipe::pipeline
