// A batch as tensors: pixels prepared for the model, targets and weights copied, so that the batch can be released
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

/// What a model learns from a batch.
struct TargetSpec {
  enum class Form : uint8_t {
    kClass,     // the sample's class, i64 [N]
    kMultiHot,  // from a ragged field of class numbers: f32 [N,outputs], 1 for each number in the field
    kNumbers,   // (number - mean) / deviation of fields, side by side: f32 [N,outputs]
    kMask,  // from a mask u8 [H,W], the class of each pixel: i64 [N*H*W], each with a separate weight, 0 if it is kIgnored
    kBoxes,  // from ragged fields: boxes f32 [4], their classes and, if there is one, crowds: rows and weights as in box_coding.h
  };
  static constexpr uint8_t kIgnored = 255;  // in a mask: unknown, or outside of the image
  Form form = Form::kClass;
  std::vector<std::string> fields = {};
  int64_t outputs = 0;
  engine::BoxCoding boxes = {};  // for kBoxes: the model's
  std::vector<double> mean = {}, deviation = {};
  std::vector<float> class_weights =
      {};  // for kClass and kMask: a factor for the weights of each class's targets; empty: 1
};

/// A number of any dtype, at any address.
double target_number(const std::byte* at, DType dtype);

/// The error for a class number in a mask that the model does not have.
Error unknown_class(const TargetSpec& spec, int64_t sample, int64_t number);

/// A batch of images, or of tokens: the first T values of a field u8 or i64 [T+1] are inputs, the last T are labels.
struct BatchInput {
  engine::Tensor pixels;  // floating [N,H,W,C], prepared according to batch.prep; tokens: i64 [N,T]
  engine::Tensor target;  // i64 [N], or as in TargetSpec; tokens: i64 [N * T]; mixed: 2N rows
  engine::Tensor weight;  // f32, one per label; 0: the row doesn't count
  double total_weight = 0;
  bool has_object = true;  // for kBoxes: false if the loss is divided by 1, because there is no object
  std::vector<float> sample_weight = {};  // of each row of pixels, on the host
  BoxObjects objects = {};                // for kBoxes: the objects of each image
  engine::BoxCoding boxes = {};           // for kBoxes, too
  /// The batch's samples are mixed: targets are first all own ones, then all partners', with the weights
  /// lambda w and (1 - lambda) w. So two copies of the logits, one after the other (rows()), give the mixed
  /// loss, for every loss that is a weighted mean.
  bool is_mixed = false;

  /// A model's outputs for `pixels`, with one row per target.
  engine::Tensor rows(const engine::Tensor& logits) const;
  /// Part `index` of `count` equal ones, in separate memory; the whole batch if `count` is 1. Does not wait for a device.
  BatchInput part(int64_t index, int64_t count) const;
};

/// Throws Error (kUnsupported) if the batch has neither tokens nor an image field (u8 [H,W,C]) with the fields of `target`, by
/// default a label field (i64 []).
/// The result is on `device`. If the batch is there already, the calling thread's stream waits for it and does the
/// work, and the host does not wait; release() the batch with that stream.
BatchInput batch_input(const Batch& batch, Device& device = cpu_device(), const TargetSpec& target = {});
/// Only the targets, of a form other than kClass, on the host.
engine::Tensor batch_target(const Batch& batch, const TargetSpec& target, Device& device = cpu_device());
/// The two steps of batch_input(), for callers that need to know when the batch has arrived.
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
  /// Copies `batch`, without its mixing of samples. The source of `batch` may be destroyed afterwards.
  explicit CachedBatch(const Batch& batch);
  /// `count` images of random bytes [height, width, channels] with one target each, drawn by `seed`: a random class or label, a
  /// box in the middle with a random class, or zeros for numbers and masks.
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
