#include "dlpipe/run/input/cached_batch.h"

#include <cstring>
#include <numeric>

#include "dlpipe/base/rng.h"

namespace dlpipe::run {

CachedBatch::CachedBatch(const Batch& batch)
    : weight_(batch.weight.begin(), batch.weight.end()),
      sample_ids_(batch.sample_ids.begin(), batch.sample_ids.end()),
      batch_(batch) {
  if (batch.prep != nullptr) prep_ = *batch.prep;
  prep_.mix.clear();
  for (const BatchField& field : batch.fields) {
    if (field.spec->ragged) continue;
    const size_t size = field.spec->sample_bytes() * static_cast<size_t>(batch.capacity);
    specs_.push_back(*field.spec);
    data_.emplace_back(field.data, field.data + size);
  }
  batch_.fields.clear();
  for (size_t i = 0; i < specs_.size(); ++i) batch_.fields.push_back({&specs_[i], data_[i].data(), {}});
  batch_.weight = weight_;
  batch_.sample_ids = sample_ids_;
  batch_.prep = &prep_;
  batch_.substitutions = {};
  batch_.ready_event = batch_.copy_event = nullptr;
  batch_.last_in_epoch = false;  // it never ends
}

/// A batch of `count` samples that all count, in memory that the caller keeps.
static Batch whole_batch(int64_t count, std::vector<BatchField> fields, std::vector<float>& weight,
                         std::vector<int64_t>& ids) {
  weight.assign(static_cast<size_t>(count), 1.0f);
  ids.resize(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  Batch batch;
  batch.count = count;
  batch.capacity = count;
  batch.fields = std::move(fields);
  batch.weight = weight;
  batch.sample_ids = ids;
  return batch;
}

std::unique_ptr<CachedBatch> CachedBatch::random(int64_t count, const Shape& image, int64_t classes,
                                                 uint64_t seed) {
  const std::vector<FieldSpec> specs = {{"image", DType::kU8, image}, {"label", DType::kI64, {}}};
  std::vector<uint8_t> pixels(static_cast<size_t>(count * image.elements()));
  std::vector<int64_t> labels(static_cast<size_t>(count));
  RandomStream random(seed, 0);
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random.next_u32());
  for (int64_t& label : labels) label = random.below(static_cast<uint32_t>(classes));
  BatchPrep prep;  // to about zero mean and unit deviation
  prep.scale.fill(1.0f / 64.0f);
  prep.bias.fill(-2.0f);
  std::vector<float> weight;
  std::vector<int64_t> ids;
  Batch batch = whole_batch(count,
                            {{&specs[0], reinterpret_cast<std::byte*>(pixels.data()), {}},
                             {&specs[1], reinterpret_cast<std::byte*>(labels.data()), {}}},
                            weight, ids);
  batch.prep = &prep;
  return std::make_unique<CachedBatch>(batch);
}

std::unique_ptr<CachedBatch> CachedBatch::random_tokens(int64_t count, int64_t length, int64_t vocabulary,
                                                        uint64_t seed) {
  const FieldSpec spec = {"tokens", DType::kI64, {length + 1}};
  std::vector<int64_t> tokens(static_cast<size_t>(count * (length + 1)));
  RandomStream random(seed, 0);
  for (int64_t& token : tokens) token = random.below(static_cast<uint32_t>(vocabulary));
  std::vector<float> weight;
  std::vector<int64_t> ids;
  return std::make_unique<CachedBatch>(
      whole_batch(count, {{&spec, reinterpret_cast<std::byte*>(tokens.data()), {}}}, weight, ids));
}

Result<std::optional<Batch>> CachedBatch::next() {
  Batch batch = batch_;
  batch.epoch = 0;
  batch.index = state_.batch_index++;
  state_.samples_consumed += batch.count;
  return std::optional<Batch>(batch);
}

Status CachedBatch::release(const Batch&, Stream*) {
  return {};
}

Status CachedBatch::seek(const SourceState& state) {
  state_ = state;
  return {};
}

SourceStats CachedBatch::stats() const {
  SourceStats stats;
  stats.batches = state_.batch_index;
  stats.samples = state_.samples_consumed;
  return stats;
}

}  // namespace dlpipe::run
