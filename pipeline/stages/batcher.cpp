#include "dlpipe/pipeline/stages/batcher.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/plan/mixing.h"

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

// Draws and hashes as if the grain were a batch of its own: so they are the same however many grains a rank has.
static void finish_grain(Slot& slot, int64_t grain) {
  const Setup& setup = slot.setup();
  BatchMeta& meta = slot.meta;
  const int64_t first = grain * setup.grain_samples();
  const auto begin = static_cast<size_t>(first), samples = static_cast<size_t>(setup.grain_samples());
  BatchRange range = meta.range;
  range.index = range.index * setup.options.grains + setup.first_grain() + grain;
  range.first += first;
  range.count = std::clamp<int64_t>(meta.range.count - first, 0, setup.grain_samples());
  const std::span hashes(slot.hashes.data() + begin, static_cast<size_t>(range.count));
  uint64_t hash = data::checksum64(std::as_bytes(hashes), static_cast<uint64_t>(range.count));
  if (!meta.prep.mix.empty()) {
    const std::span mixes = std::span(meta.prep.mix).subspan(begin, samples);
    const std::span weight = std::span(meta.weight).subspan(begin, samples);
    draw_mixes(setup.mixing, setup.options.seed, range, setup.image_size, weight, mixes);
    static_assert(sizeof(SampleMix) == 6 * sizeof(int32_t), "bytes between its members would be hashed");
    hash = data::checksum64(std::as_bytes(mixes), hash);
    for (SampleMix& mix : mixes) {
      if (mix.partner >= 0) mix.partner += static_cast<int32_t>(first);
    }
  }
  meta.hashes[static_cast<size_t>(grain)] = hash;
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
  for (int64_t grain = 0; grain < setup.grains(); ++grain) finish_grain(slot, grain);
  if (setup.mixing.is_on()) std::copy(mixes.begin(), mixes.end(), slot.memory().mixes());
  if (slot.has_bytes_beside()) mix_into_numbers(slot);
  // Stable: several bad samples of one position stand in the order of the attempts.
  std::stable_sort(slot.meta.substitutions.begin(), slot.meta.substitutions.end(),
                   [](const Substitution& a, const Substitution& b) { return a.position < b.position; });
}

}  // namespace dlpipe::pipeline
