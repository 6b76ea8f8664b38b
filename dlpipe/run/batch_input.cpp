#include "dlpipe/run/batch_input.h"

#include "dlpipe/base/error.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::run {

static bool is_image(const FieldSpec& spec) {
  return !spec.ragged && spec.dtype == DType::kU8 && spec.shape.rank() == 3;
}
static bool is_label(const FieldSpec& spec) {
  return !spec.ragged && spec.dtype == DType::kI64 && spec.shape.rank() == 0;
}

const FieldSpec* image_field(std::span<const FieldSpec> schema) {
  for (const FieldSpec& spec : schema) {
    if (is_image(spec)) return &spec;
  }
  return nullptr;
}
const FieldSpec* label_field(std::span<const FieldSpec> schema) {
  for (const FieldSpec& spec : schema) {
    if (is_label(spec)) return &spec;
  }
  return nullptr;
}

BatchInput batch_input(const Batch& batch) {
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
