#include "dlpipe/run/input/batch_input.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/ops/batch_prep.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::run {

using engine::Tensor;

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

namespace {

/// A batch's memory as tensors that don't own it.
class BatchTensors {
 public:
  BatchTensors(const Batch& batch, Device& device)
      : batch_(batch), device_(batch.ready_event != nullptr ? device : cpu_device()) {}
  Tensor field(const BatchField& field) const {
    std::vector<int64_t> sizes = {batch_.capacity};
    for (const int64_t size : field.spec->shape) sizes.push_back(size);
    return Tensor::borrow(field.data, Shape(std::span<const int64_t>(sizes)), field.spec->dtype, device_);
  }
  Tensor weight() const {
    const float* const weight = batch_.ready_event != nullptr ? batch_.device_weight : batch_.weight.data();
    return Tensor::borrow(const_cast<float*>(weight), {batch_.capacity}, DType::kF32, device_);
  }
  /// What batch.prep->mix holds, a row of bytes per sample.
  Tensor mixes() const {
    const SampleMix* const mixes =
        batch_.ready_event != nullptr ? batch_.device_mixes : batch_.prep->mix.data();
    return Tensor::borrow(const_cast<SampleMix*>(mixes),
                          {batch_.capacity, static_cast<int64_t>(sizeof(SampleMix))}, DType::kU8, device_);
  }

 private:
  const Batch& batch_;
  Device& device_;
};

Tensor widened(const Tensor& bytes) {
  if (bytes.dtype() == DType::kI64) return bytes;
  Tensor wide = Tensor::empty({bytes.shape(), DType::kI64, engine::Layout::kPlain}, bytes.device());
  const auto* const from = bytes.data<uint8_t>();
  if (bytes.device().is_host()) {
    std::copy(from, from + bytes.elements(), wide.data<int64_t>());
  } else {
    engine::device_code(bytes.device()).widen(from, wide.data<int64_t>(), bytes.elements());
  }
  return wide;
}

/// Of samples of `labels` labels each.
double total_of(std::span<const float> sample_weight, int64_t labels) {
  double total = 0;
  for (const float weight : sample_weight) total += weight * static_cast<double>(labels);
  return total;
}

/// Inputs and labels of next-token prediction.
BatchInput token_input(const Batch& batch, const BatchField& field, const BatchTensors& tensors) {
  const int64_t n = batch.capacity, length = field.spec->shape[0] - 1;
  const Tensor tokens = widened(tensors.field(field));
  const auto rows = [&](int64_t first) {
    return tokens.view_as({n, length}, std::array<int64_t, 2>{length + 1, 1}, first).contiguous_copy();
  };
  const auto flat = [&](const Tensor& x) { return x.view_as({n * length}, std::array<int64_t, 1>{1}, 0); };
  BatchInput input;
  input.pixels = rows(0);
  input.labels = flat(rows(1));
  input.weight =
      flat(tensors.weight().view_as({n, length}, std::array<int64_t, 2>{1, 0}, 0).contiguous_copy());
  input.sample_weight.assign(batch.weight.begin(), batch.weight.end());
  input.total_weight = total_of(input.sample_weight, length);
  return input;
}

/// Two rows per sample, from labels and weights as they came.
void mix_targets(BatchInput& input, const Tensor& mixes) {
  const int64_t n = input.labels.size(0);
  Device& device = mixes.device();
  const Tensor labels = Tensor::empty({{2 * n}, DType::kI64, engine::Layout::kPlain}, device);
  const Tensor weight = Tensor::empty({{2 * n}, DType::kF32, engine::Layout::kPlain}, device);
  const auto* const records = static_cast<const SampleMix*>(mixes.raw());
  const auto* const own_labels = input.labels.data<int64_t>();
  const auto* const own_weight = input.weight.data<float>();
  if (device.is_host()) {
    for (int64_t row = 0; row < 2 * n; ++row) {
      const auto target = engine::mixed_target(own_labels, own_weight, records, n, row);
      labels.data<int64_t>()[row] = target.label;
      weight.data<float>()[row] = target.weight;
    }
  } else {
    engine::device_code(device).mix_targets(own_labels, own_weight, records, n, labels.data<int64_t>(),
                                            weight.data<float>());
  }
  input.labels = labels;
  input.weight = weight;
  input.is_mixed = true;
}

BatchInput image_input(const Batch& batch, const BatchField& image, const BatchField& label,
                       const BatchTensors& tensors) {
  const engine::NoGrad no_grad;
  BatchInput input;
  const BatchPrep prep = batch.prep != nullptr ? *batch.prep : BatchPrep();
  input.sample_weight.assign(batch.weight.begin(), batch.weight.end());
  input.total_weight = total_of(input.sample_weight, 1);
  if (!prep.mix.empty()) {
    input.pixels = engine::batch_prep(tensors.field(image), prep, tensors.mixes());
    input.labels = tensors.field(label);
    input.weight = tensors.weight();
    mix_targets(input, tensors.mixes());
    return input;
  }
  input.pixels = engine::batch_prep(tensors.field(image), prep);
  input.labels = tensors.field(label).clone();
  input.weight = tensors.weight().clone();
  return input;
}

/// As far as it isn't there.
void move(BatchInput& input, Device& device) {
  for (Tensor* tensor : {&input.pixels, &input.labels, &input.weight}) *tensor = tensor->to(device);
}

}  // namespace

Tensor BatchInput::rows(const Tensor& logits) const {
  return is_mixed ? engine::concat({logits, logits}, 0) : logits;
}

/// Rows [begin, begin + count) of `x`.
static Tensor rows_of(const Tensor& x, int64_t begin, int64_t count) {
  std::vector<int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes[0] = count;
  const int64_t row = x.strides()[0];
  return x.view_as(Shape(std::span<const int64_t>(sizes)), x.strides(), begin * row).contiguous_copy();
}

// A copy: an op's kernels may look at how memory is aligned, and a grain must have the same bits wherever it stands.
BatchInput BatchInput::part(int64_t index, int64_t count) const {
  if (count == 1) return *this;
  const engine::NoGrad no_grad;
  BatchInput part;
  part.is_mixed = is_mixed;
  const int64_t samples = pixels.size(0) / count;
  part.pixels = rows_of(pixels, index * samples, samples);
  const int64_t halves = is_mixed ? 2 : 1;  // own labels, then the partners'
  const int64_t all = labels.size(0) / halves, each = all / count;
  std::vector<Tensor> label_halves, weight_halves;
  for (int64_t half = 0; half < halves; ++half) {
    label_halves.push_back(rows_of(labels, half * all + index * each, each));
    weight_halves.push_back(rows_of(weight, half * all + index * each, each));
  }
  part.labels = is_mixed ? engine::concat(label_halves, 0) : label_halves.front();
  part.weight = is_mixed ? engine::concat(weight_halves, 0) : weight_halves.front();
  const auto first = sample_weight.begin() + static_cast<std::ptrdiff_t>(index * samples);
  part.sample_weight.assign(first, first + static_cast<std::ptrdiff_t>(samples));
  part.total_weight = total_of(part.sample_weight, each / samples);
  return part;
}

BatchInput batch_input(const Batch& batch, Device& device) {
  wait_for_batch(batch, device);
  return arrived_batch_input(batch, device);
}

void wait_for_batch(const Batch& batch, Device& device) {
  if (batch.ready_event != nullptr)
    throw_if_error(device.wait(engine::engine_stream(device), *batch.ready_event));
}

BatchInput arrived_batch_input(const Batch& batch, Device& device) {
  const BatchField* image = nullptr;
  const BatchField* label = nullptr;
  const BatchField* tokens = nullptr;
  for (const BatchField& field : batch.fields) {
    if (tokens == nullptr && is_tokens(*field.spec)) tokens = &field;
    if (image == nullptr && is_image(*field.spec)) image = &field;
    if (label == nullptr && is_label(*field.spec)) label = &field;
  }
  if (tokens == nullptr && (image == nullptr || label == nullptr)) {
    throw Error(
        Status(ErrorCode::kUnsupported,
               "[train] the dataset has no images with one label each; other kinds can't be trained on yet"));
  }
  if (tokens != nullptr && batch.prep != nullptr && !batch.prep->mix.empty()) {
    throw Error(Status(ErrorCode::kUnsupported,
                       "[train] mixing samples (mixup, cutmix) is for pictures; these are tokens"));
  }
  const BatchTensors tensors(batch, device);
  BatchInput input =
      tokens != nullptr ? token_input(batch, *tokens, tensors) : image_input(batch, *image, *label, tensors);
  move(input, device);
  return input;
}

}  // namespace dlpipe::run
