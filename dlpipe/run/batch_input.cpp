#include "dlpipe/run/batch_input.h"

#include <algorithm>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::run {

static bool is_image(const FieldSpec& spec) {
  return !spec.ragged && spec.dtype == DType::kU8 && spec.shape.rank() == 3;
}
static bool is_tokens(const FieldSpec& spec) {
  return !spec.ragged && (spec.dtype == DType::kU8 || spec.dtype == DType::kI64) && spec.shape.rank() == 1 &&
         spec.shape[0] > 1;
}
static bool is_label(const FieldSpec& spec) {
  return !spec.ragged && spec.dtype == DType::kI64 && spec.shape.rank() == 0;
}

static const FieldSpec* find_field(std::span<const FieldSpec> schema, bool (*matches)(const FieldSpec&)) {
  const auto found = std::find_if(schema.begin(), schema.end(), matches);
  return found != schema.end() ? &*found : nullptr;
}
const FieldSpec* image_field(std::span<const FieldSpec> schema) {
  return find_field(schema, is_image);
}
const FieldSpec* label_field(std::span<const FieldSpec> schema) {
  return find_field(schema, is_label);
}
const FieldSpec* token_field(std::span<const FieldSpec> schema) {
  return find_field(schema, is_tokens);
}

/// Inputs and labels of next-token prediction.
static BatchInput token_input(const Batch& batch, const BatchField& field) {
  const int64_t n = batch.capacity;
  const int64_t length = field.spec->shape[0] - 1;
  BatchInput input;
  input.pixels = engine::Tensor::empty({n, length}, DType::kI64);
  input.labels = engine::Tensor::empty({n * length}, DType::kI64);
  input.weight = engine::Tensor::empty({n * length});
  const auto* bytes = reinterpret_cast<const uint8_t*>(field.data);
  const auto* wide = reinterpret_cast<const int64_t*>(field.data);
  const bool narrow = field.spec->dtype == DType::kU8;
  const auto token = [&](int64_t i) { return narrow ? int64_t{bytes[i]} : wide[i]; };
  for (int64_t row = 0; row < n; ++row) {
    const float weight = batch.weight[static_cast<size_t>(row)];
    for (int64_t t = 0; t < length; ++t) {
      const int64_t from = row * (length + 1) + t, to = row * length + t;
      // A row that doesn't count may hold anything.
      input.pixels.data<int64_t>()[to] = weight == 0 ? 0 : token(from);
      input.labels.data<int64_t>()[to] = weight == 0 ? 0 : token(from + 1);
      input.weight.data<float>()[to] = weight;
      input.total_weight += weight;
    }
  }
  return input;
}

BatchInput batch_input(const Batch& batch) {
  for (const BatchField& field : batch.fields) {
    if (is_tokens(*field.spec)) return token_input(batch, field);
  }
  const BatchField* image = nullptr;
  const BatchField* label = nullptr;
  for (const BatchField& field : batch.fields) {
    if (image == nullptr && is_image(*field.spec)) image = &field;
    if (label == nullptr && is_label(*field.spec)) label = &field;
  }
  if (image == nullptr || label == nullptr) {
    throw Error(
        Status(ErrorCode::kUnsupported,
               "[train] the dataset has no images with one label each; other kinds can't be trained on yet"));
  }
  if (batch.prep != nullptr && !batch.prep->mix.empty()) {
    throw Error(
        Status(ErrorCode::kUnsupported, "[train] mixed samples (mixup, cutmix) can't be trained on yet"));
  }
  const int64_t n = batch.capacity;
  const Shape& shape = image->spec->shape;
  const engine::Tensor bytes =
      engine::Tensor::borrow(image->data, {n, shape[0], shape[1], shape[2]}, DType::kU8);
  BatchInput input;
  {
    const engine::NoGrad no_grad;
    input.pixels = engine::batch_prep(bytes, batch.prep != nullptr ? *batch.prep : BatchPrep());
  }
  const auto* labels = reinterpret_cast<const int64_t*>(label->data);
  input.labels = engine::Tensor::from(std::span(labels, static_cast<size_t>(n)), {n});
  input.weight = engine::Tensor::from(batch.weight, {n});
  for (int64_t i = 0; i < n; ++i) {
    input.total_weight += batch.weight[static_cast<size_t>(i)];
    // A row that doesn't count may hold no label at all; the loss wants a class.
    if (batch.weight[static_cast<size_t>(i)] == 0) input.labels.data<int64_t>()[i] = 0;
  }
  return input;
}

}  // namespace dlpipe::run
