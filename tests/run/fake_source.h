// A BatchSource in memory: small grey images whose class is a bright bar's place, under noise. The same seed,
// epoch and batch give the same bytes, so that seek is O(1), as with the real pipeline.
#pragma once

#include <set>
#include <vector>

#include "dlpipe/batch.h"

namespace dlpipe::test {

struct FakeOptions {
  int64_t samples = 64;
  int64_t batch = 8;
  int64_t classes = 4;
  int64_t side = 8;
  int64_t epochs = -1;
  uint64_t seed = 1;
  bool shuffle = true;
  std::set<int64_t> dropped = {};  // sample numbers that come with weight 0
  int64_t bright_from_step = -1;   // pixels of batches from this one on are scaled to overflow
  int64_t bright_row = -1;         // of these batches; the others are black. -1: all are bright
};

class FakeSource : public BatchSource {
 public:
  explicit FakeSource(const FakeOptions& options);

  std::span<const FieldSpec> schema() const override { return specs_; }
  int64_t batches_per_epoch() const override {
    return (options_.samples + options_.batch - 1) / options_.batch;
  }
  int64_t samples_per_epoch() const override { return options_.samples; }
  Result<std::optional<Batch>> next() override;
  Status release(const Batch& batch, Stream* stream = nullptr) override;
  SourceState state() const override { return state_; }
  Status seek(const SourceState& state) override;
  SourceStats stats() const override;

 private:
  void fill(int64_t row, int64_t sample);

  FakeOptions options_;
  std::vector<FieldSpec> specs_;
  std::vector<uint8_t> pixels_;
  std::vector<int64_t> labels_;
  std::vector<int64_t> ids_;
  std::vector<float> weight_;
  BatchPrep prep_;
  SourceState state_;
  bool is_lent_ = false;
};

}  // namespace dlpipe::test
