// One batch held in memory and lent again and again: `--overfit-batch`, and measuring the engine without the
// pipeline. One consumer thread; next() costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/base/batch_source.h"

namespace dlpipe::run {

class CachedBatch : public BatchSource {
 public:
  /// Copies `batch`, whose samples won't be mixed; its source may go.
  explicit CachedBatch(const Batch& batch);
  /// `count` images of random bytes [height, width, channels] with random labels, from `seed`.
  static std::unique_ptr<CachedBatch> random(int64_t count, const Shape& image, int64_t classes,
                                             uint64_t seed);
  /// `count` sequences of length + 1 random tokens below `vocabulary`.
  static std::unique_ptr<CachedBatch> random_tokens(int64_t count, int64_t length, int64_t vocabulary,
                                                    uint64_t seed);

  std::span<const FieldSpec> schema() const override { return specs_; }
  int64_t batches_per_epoch() const override { return 1; }
  int64_t samples_per_epoch() const override { return batch_.count; }
  Result<std::optional<Batch>> next() override;
  Status release(const Batch& batch, Stream* stream = nullptr) override;
  SourceState state() const override { return state_; }
  Status seek(const SourceState& state) override;
  SourceStats stats() const override;

 private:
  CachedBatch() = default;

  std::vector<FieldSpec> specs_;
  std::vector<std::vector<std::byte>> data_;  // one per field
  std::vector<float> weight_;
  std::vector<int64_t> sample_ids_;
  BatchPrep prep_;
  Batch batch_;
  SourceState state_;
};

}  // namespace dlpipe::run
