// A batch as tensors: pixels prepared for the model, targets and weights copied, so that the slot can go back
// at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/error.h"
#include "dlpipe/tensor.h"
#include "run/input/box_coding.h"

namespace dlpipe::run {

/// What of a batch a model learns.
struct TargetSpec {
  enum class Form : uint8_t {
    kClass,     // the sample's class, i64 [N]
    kMultiHot,  // of a ragged field of class numbers: f32 [N,outputs], 1 where the number is among them
    kNumbers,   // (number - mean) / deviation of fields f32, side by side: f32 [N,outputs]
    kMask,  // of a mask u8 [H,W], the class of each pixel: i64 [N*H*W], each with a weight of its own, 0 where it is kIgnored
    kBoxes,  // of ragged fields boxes f32 [4], their classes and, where there is one, crowds: box_coding.h's rows and weights
  };
  static constexpr uint8_t kIgnored = 255;  // of a mask: nobody knows, or there is no image
  Form form = Form::kClass;
  std::vector<std::string> fields = {};
  int64_t outputs = 0;
  engine::BoxCoding boxes = {};  // of kBoxes: the model's
  std::vector<double> mean = {}, deviation = {};
  std::vector<float> class_weights =
      {};  // of kClass and kMask: factors of the weights of targets of each class; empty: 1
};

/// Of a mask's class number that the model does not have.
Error unknown_class(const TargetSpec& spec, int64_t sample, int64_t number);

/// Of images, or of tokens: a field u8 or i64 [T+1] becomes inputs, its first T, and labels, its last T.
struct BatchInput {
  engine::Tensor pixels;  // floating [N,H,W,C], prepared as batch.prep says; tokens: i64 [N,T]
  engine::Tensor target;  // i64 [N], or as TargetSpec says; tokens: i64 [N * T]; mixed: 2N rows
  engine::Tensor weight;  // f32, one per label; 0: the row doesn't count
  double total_weight = 0;
  bool has_object = true;  // of kBoxes: false where the loss is divided by 1, for want of an object
  std::vector<float> sample_weight = {};  // of each row of pixels, as the host knows it
  BoxObjects objects = {};                // of kBoxes: what there is in each image
  engine::BoxCoding boxes = {};           // of kBoxes, too
  /// The batch's samples are mixed: targets are their own and then their partners', weights lambda w and
  /// (1 - lambda) w. Logits that stand twice, one below the other, so have the mixed loss whatever the loss,
  /// as long as it is a mean by weight.
  bool is_mixed = false;

  /// A model's outputs for `pixels`, one row per target.
  engine::Tensor rows(const engine::Tensor& logits) const;
  /// Part `index` of `count` equal ones, in separate memory; the whole batch if `count` is 1. Does not wait for a device.
  BatchInput part(int64_t index, int64_t count) const;
};

/// Throws Error (kUnsupported) when the batch has neither tokens nor an image field (u8 [H,W,C]) with what `target` names, by
/// default a label field (i64 []).
/// On `device`: where the batch is there already, in the calling thread's stream, which first waits for the
/// batch (the host doesn't); release() it with that stream.
BatchInput batch_input(const Batch& batch, Device& device = cpu_device(), const TargetSpec& target = {});
/// The targets alone, of another form than kClass, on the host.
engine::Tensor batch_target(const Batch& batch, const TargetSpec& target, Device& device = cpu_device());
/// Its two halves, for who wants to know when the batch was there.
void wait_for_batch(const Batch& batch, Device& device);
BatchInput arrived_batch_input(const Batch& batch, Device& device, const TargetSpec& target = {});

/// The image, label and token fields of a schema; null if there is none.
const FieldSpec* image_field(std::span<const FieldSpec> schema);
const FieldSpec* label_field(std::span<const FieldSpec> schema);
const FieldSpec* token_field(std::span<const FieldSpec> schema);

// One batch in memory, returned again and again: for `--overfit-batch`, and for measuring the engine without the pipeline. One
// consumer thread; next() costs nothing.

class CachedBatch : public BatchSource {
 public:
  /// Copies `batch`, whose samples won't be mixed; its source may be destroyed.
  explicit CachedBatch(const Batch& batch);
  /// `count` images of random bytes [height, width, channels] with a random class, or target of one field, each, from `seed`.
  static std::unique_ptr<CachedBatch> random(int64_t count, const Shape& image, int64_t classes,
                                             uint64_t seed, const TargetSpec& target = {});
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
  std::vector<std::vector<std::byte>> data_;   // one per field
  std::vector<std::vector<int64_t>> offsets_;  // of ragged fields
  std::vector<float> weight_;
  std::vector<int64_t> sample_ids_;
  BatchPrep prep_;
  Batch batch_;
  SourceState state_;
};

}  // namespace dlpipe::run
