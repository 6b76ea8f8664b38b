// A batch as tensors: pixels prepared for the model, labels and weights copied, so that the slot can go back
// at once.
#pragma once

#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::run {

/// Of images, or of tokens: a field u8 or i64 [T+1] becomes inputs, its first T, and labels, its last T.
struct BatchInput {
  engine::Tensor pixels;  // floating [N,H,W,C], prepared as batch.prep says; tokens: i64 [N,T]
  engine::Tensor labels;  // i64 [N]; tokens: [N * T]; mixed: [2N]
  engine::Tensor weight;  // f32, one per label; 0: the row doesn't count
  double total_weight = 0;
  std::vector<float> sample_weight = {};  // of each row of pixels, as the host knows it
  /// The batch's samples are mixed: labels are their own and then their partners', weights lambda w and
  /// (1 - lambda) w. Logits that stand twice, one below the other, so have the mixed loss whatever the loss,
  /// as long as it is a mean by weight.
  bool is_mixed = false;

  /// A model's outputs for `pixels`, one row per label.
  engine::Tensor rows(const engine::Tensor& logits) const;
  /// Part `index` of `count` equal ones, in memory of its own; whole: itself. Waits for no device.
  BatchInput part(int64_t index, int64_t count) const;
};

/// Throws Error (kUnsupported) when the batch has neither tokens nor an image field (u8 [H,W,C]) with a label
/// field (i64 []).
/// On `device`: where the batch is there already, in the calling thread's stream, which first waits for the
/// batch (the host doesn't); release() it with that stream.
BatchInput batch_input(const Batch& batch, Device& device = cpu_device());
/// Its two halves, for who wants to know when the batch was there.
void wait_for_batch(const Batch& batch, Device& device);
BatchInput arrived_batch_input(const Batch& batch, Device& device);

/// The image, label and token fields of a schema; null where there is none.
const FieldSpec* image_field(std::span<const FieldSpec> schema);
const FieldSpec* label_field(std::span<const FieldSpec> schema);
const FieldSpec* token_field(std::span<const FieldSpec> schema);

}  // namespace dlpipe::run
