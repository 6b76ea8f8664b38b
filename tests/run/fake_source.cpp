#include "tests/run/fake_source.h"

#include <algorithm>
#include <limits>

#include "base/counters.h"
#include "dlpipe/random.h"

namespace dlpipe::test {

FakeSource::FakeSource(const FakeOptions& options) : options_(options) {
  specs_ = {{"image", DType::kU8, {options.side, options.side, 1}}, {"label", DType::kI64, {}}};
  const auto batch = static_cast<size_t>(options.batch);
  pixels_.resize(batch * static_cast<size_t>(options.side * options.side));
  labels_.resize(batch);
  ids_.resize(batch);
  weight_.resize(batch);
  state_.dataset_id = "fake";
  state_.pipeline_id = "fake";
  state_.seed = options.seed;
}

void FakeSource::fill(int64_t row, int64_t sample) {
  const auto r = static_cast<size_t>(row);
  RandomStream random(options_.seed * 1000 + 7, static_cast<uint64_t>(sample));
  const int64_t label = random.below(static_cast<uint32_t>(options_.classes));
  uint8_t* image = pixels_.data() + r * static_cast<size_t>(options_.side * options_.side);
  const int64_t bar = label * options_.side / options_.classes;
  for (int64_t y = 0; y < options_.side; ++y) {
    for (int64_t x = 0; x < options_.side; ++x) {
      image[y * options_.side + x] = static_cast<uint8_t>(random.below(96) + (x == bar ? 120 : 0));
    }
  }
  labels_[r] = label;
  ids_[r] = sample;
  weight_[r] = options_.dropped.contains(sample) ? 0.0f : 1.0f;
}

Result<std::optional<Batch>> FakeSource::next() {
  const SpanScope span(Span::kDataDecode);
  if (is_lent_) return Status(ErrorCode::kMisuse, "[fake] the batch was not released");
  if (options_.epochs >= 0 && state_.epoch >= options_.epochs) return std::optional<Batch>();
  Batch batch;
  batch.epoch = state_.epoch;
  batch.index = state_.batch_index;
  batch.capacity = options_.batch;
  for (int64_t row = 0; row < options_.batch; ++row) {
    const int64_t position = state_.batch_index * options_.batch + row;
    if (position >= options_.samples) {
      const auto r = static_cast<size_t>(row);
      weight_[r] = 0;
      ids_[r] = -1;
      labels_[r] = -1;
      const auto bytes = static_cast<size_t>(options_.side * options_.side);
      std::fill_n(pixels_.begin() + static_cast<std::ptrdiff_t>(r * bytes), bytes, uint8_t{0});
      continue;
    }
    // Any bijection will do as a shuffle: a rotation by an amount that depends on the epoch.
    const int64_t shift = options_.shuffle ? (state_.epoch * 13 + 5) % options_.samples : 0;
    const int64_t sample = (position + shift) % options_.samples;
    fill(row, sample);
    state_.chain = philox_mix(state_.chain, static_cast<uint64_t>(sample));
    ++batch.count;
  }
  prep_.scale.fill(1.0f / 64.0f);
  prep_.bias.fill(-1.0f);
  const int64_t number = state_.epoch * batches_per_epoch() + state_.batch_index;
  if (options_.bright_from_step >= 0 && number >= options_.bright_from_step) {
    prep_.bias.fill(0.0f);
    prep_.scale.fill(std::numeric_limits<float>::max());
    const auto bytes = static_cast<std::ptrdiff_t>(options_.side * options_.side);
    for (int64_t row = 0; row < options_.batch; ++row) {
      if (options_.bright_row >= 0 && row != options_.bright_row)
        std::fill_n(pixels_.begin() + row * bytes, bytes, uint8_t{0});
    }
  }
  batch.fields = {{&specs_[0], reinterpret_cast<std::byte*>(pixels_.data()), {}},
                  {&specs_[1], reinterpret_cast<std::byte*>(labels_.data()), {}}};
  batch.weight = weight_;
  batch.sample_ids = ids_;
  batch.prep = &prep_;
  state_.samples_consumed += batch.count;
  batch.last_in_epoch = ++state_.batch_index == batches_per_epoch();
  if (batch.last_in_epoch) {
    state_.batch_index = 0;
    ++state_.epoch;
  }
  batch.chain = state_.chain;
  is_lent_ = true;
  return std::optional<Batch>(batch);
}

Status FakeSource::release(const Batch&, Stream*) {
  is_lent_ = false;
  return {};
}

Status FakeSource::seek(const SourceState& state) {
  state_ = state;
  is_lent_ = false;
  return {};
}

SourceStats FakeSource::stats() const {
  SourceStats stats;
  stats.samples = state_.samples_consumed;
  stats.wall_ns = 1;
  return stats;
}

}  // namespace dlpipe::test
