#include "run/input/batch_input.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "base/messages.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/ops/conversions.h"

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

template <class Number>
static Number number_at(const std::byte* at) {
  Number number{};
  std::memcpy(&number, at, sizeof number);
  return number;
}

double target_number(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(number_at<float>(at));
    case DType::kF64:
      return number_at<double>(at);
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(number_at<BFloat16>(at)));
    case DType::kF16:
      return static_cast<double>(static_cast<float>(number_at<Float16>(at)));
    case DType::kU8:
      return number_at<uint8_t>(at);
    case DType::kI32:
      return number_at<int32_t>(at);
    case DType::kI64:
      return static_cast<double>(number_at<int64_t>(at));
  }
  return 0;  // there are no others
}

Error unknown_class(const TargetSpec& spec, int64_t sample, int64_t number) {
  return Error(Status(ErrorCode::kUnsupported,
                      concat("[data] mask '", spec.fields.at(0), "' of sample ", sample, " contains class ",
                             number, ", and the model has the classes 0 to ", spec.outputs - 1, "; ",
                             static_cast<int>(TargetSpec::kIgnored), " marks pixels that do not count")));
}

namespace {

/// A batch's memory as tensors that do not own it.
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
  /// The contents of batch.prep->mix, one row of bytes per sample.
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

/// The total weight of samples with `labels` labels each.
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
  input.target = flat(rows(1));
  input.weight =
      flat(tensors.weight().view_as({n, length}, std::array<int64_t, 2>{1, 0}, 0).contiguous_copy());
  input.sample_weight.assign(batch.weight.begin(), batch.weight.end());
  input.total_weight = total_of(input.sample_weight, length);
  return input;
}

/// Makes two rows per sample from its own and its partner's label and weight.
void mix_targets(BatchInput& input, const Tensor& mixes) {
  const int64_t n = input.target.size(0);
  Device& device = mixes.device();
  const Tensor labels = Tensor::empty({{2 * n}, DType::kI64, engine::Layout::kPlain}, device);
  const Tensor weight = Tensor::empty({{2 * n}, DType::kF32, engine::Layout::kPlain}, device);
  const auto* const records = static_cast<const SampleMix*>(mixes.raw());
  const auto* const own_labels = input.target.data<int64_t>();
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
  input.target = labels;
  input.weight = weight;
  input.is_mixed = true;
}

const BatchField& field_called(const Batch& batch, const std::string& name) {
  if (const BatchField* field = batch.field(name)) return *field;
  throw Error(Status(ErrorCode::kUnsupported,
                     concat("[data] samples have no field '", name, "', which the model learns")));
}

/// f32 [capacity, outputs] on the host, because ragged fields are there.
Tensor multi_hot(const Batch& batch, const TargetSpec& spec) {
  const BatchField& field = field_called(batch, spec.fields.at(0));
  Tensor rows = Tensor::zeros({batch.capacity, spec.outputs});
  const auto* const numbers = reinterpret_cast<const int64_t*>(field.data);
  for (int64_t i = 0; i < batch.capacity; ++i) {
    for (int64_t k = field.offsets[static_cast<size_t>(i)]; k < field.offsets[static_cast<size_t>(i) + 1];
         ++k) {
      if (numbers[k] >= 0 && numbers[k] < spec.outputs) rows.data<float>()[i * spec.outputs + numbers[k]] = 1;
    }
  }
  return rows;
}

/// (number - mean) / deviation of a field, as f32 [capacity, width]; the mean and the deviation begin at `first` in `spec`. f32
/// stays in the memory where it is. Its mean is subtracted in two parts, so that numbers near a large mean keep their digits.
/// Other dtypes are converted on the host, in f64.
Tensor standardized(const Tensor& field, const TargetSpec& spec, size_t first) {
  const int64_t rows = field.size(0), width = field.elements() / rows;
  if (field.dtype() == DType::kF32) {
    const auto row = [&](auto number) {
      std::vector<float> numbers;
      for (size_t i = first; i < first + static_cast<size_t>(width); ++i)
        numbers.push_back(static_cast<float>(number(i)));
      return Tensor::from(std::span<const float>(numbers), {width}).to(field.device());
    };
    const auto upper = [&](size_t i) { return -static_cast<double>(static_cast<float>(spec.mean[i])); };
    const Tensor distance = engine::add(engine::reshape(field, {rows, width}), row(upper));
    return engine::mul(engine::add(distance, row([&](size_t i) { return -spec.mean[i] - upper(i); })),
                       row([&](size_t i) { return 1 / spec.deviation[i]; }));
  }
  const Tensor numbers = field.to(cpu_device()).contiguous_copy();
  const auto* const bytes = static_cast<const std::byte*>(numbers.raw());
  const Tensor made = Tensor::empty({rows, width});
  for (int64_t i = 0; i < rows * width; ++i) {
    const size_t at = first + static_cast<size_t>(i % width);
    const double number =
        target_number(bytes + static_cast<size_t>(i) * dtype_size(field.dtype()), field.dtype());
    made.data<float>()[i] = static_cast<float>((number - spec.mean[at]) / spec.deviation[at]);
  }
  return made.to(field.device());
}

/// f32 [capacity, outputs] in the memory where the fields are.
Tensor standardized(const Batch& batch, const TargetSpec& spec, const BatchTensors& tensors) {
  std::vector<Tensor> fields;
  int64_t width = 0;
  for (const std::string& name : spec.fields) {
    fields.push_back(tensors.field(field_called(batch, name)));
    width += fields.back().elements() / batch.capacity;
  }
  if (width != static_cast<int64_t>(spec.mean.size()))
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[data] samples have ", width, " numbers in ", quoted_names(spec.fields),
                              ", and the model learns ", spec.mean.size())));
  std::vector<Tensor> columns;
  size_t first = 0;
  for (const Tensor& field : fields) {
    columns.push_back(standardized(field, spec, first));
    first += static_cast<size_t>(field.elements() / batch.capacity);
  }
  return columns.size() == 1 ? columns[0] : engine::concat(columns, 1);
}

/// Whether row `i` is not 0, in a field with one number per row.
bool is_set(const BatchField& field, int64_t i) {
  const std::byte* const at = field.data + static_cast<size_t>(i) * field.spec->sample_bytes();
  switch (field.spec->dtype) {
    case DType::kF32:
      return *reinterpret_cast<const float*>(at) != 0;
    case DType::kF64:
      return *reinterpret_cast<const double*>(at) != 0;
    case DType::kI64:
      return *reinterpret_cast<const int64_t*>(at) != 0;
    default:
      return *at != std::byte{0};
  }
}

/// Reads fields on the host, where ragged fields are. Samples without rows, such as padding, have no objects.
BoxObjects objects_of(const Batch& batch, const TargetSpec& spec) {
  const BatchField& boxes = field_called(batch, spec.fields.at(0));
  const BatchField& labels = field_called(batch, spec.fields.at(1));
  const BatchField* const crowds = spec.fields.size() > 2 ? batch.field(spec.fields[2]) : nullptr;
  const auto* const sides = reinterpret_cast<const float*>(boxes.data);
  const auto* const numbers = reinterpret_cast<const int64_t*>(labels.data);
  BoxObjects objects;
  for (size_t i = 0; i < static_cast<size_t>(batch.capacity); ++i) {
    const int64_t first = boxes.offsets[i], count = boxes.offsets[i + 1] - first;
    for (const BatchField* const field : {&labels, crowds}) {
      if (field == nullptr || field->offsets[i + 1] - field->offsets[i] == count) continue;
      throw Error(Status(
          ErrorCode::kCorrupt,
          concat("[data] the number of values of a sample in '", field->spec->name,
                 "' differs from its number of boxes in '", spec.fields[0], "'; ingest the dataset again")));
    }
    for (int64_t k = 0; k < count; ++k) {
      const float* const box = sides + 4 * (first + k);
      objects.all.push_back({{box[0], box[1], box[2], box[3]},
                             numbers[labels.offsets[i] + k],
                             crowds != nullptr && is_set(*crowds, crowds->offsets[i] + k)});
    }
    objects.offsets.push_back(static_cast<int64_t>(objects.all.size()));
  }
  return objects;
}

/// Sets total_weight and has_object of an input of boxes. Its target and weight must be on the host.
void weigh_boxes(BatchInput& input) {
  const BoxWeight weight = box_weight(input.boxes, input.target, input.weight);
  input.total_weight = weight.weight;
  input.has_object = weight.has_object;
}

void add_boxes(BatchInput& input, const Batch& batch, const TargetSpec& spec) {
  input.objects = objects_of(batch, spec);
  input.boxes = spec.boxes;
  BoxTarget target = box_target({spec.boxes, input.pixels.size(1), input.pixels.size(2), spec.outputs},
                                input.objects, input.sample_weight);
  input.target = std::move(target.rows);
  input.weight = std::move(target.weight);
  weigh_boxes(input);
}

Tensor target_of(const Batch& batch, const TargetSpec& spec, const BatchTensors& tensors) {
  if (spec.form == TargetSpec::Form::kMask) {
    const Tensor mask = widened(tensors.field(field_called(batch, spec.fields.at(0))));
    return mask.view_as({mask.elements()}, std::array<int64_t, 1>{1}, 0);
  }
  return spec.form == TargetSpec::Form::kMultiHot ? multi_hot(batch, spec)
                                                  : standardized(batch, spec, tensors);
}

/// Gives each pixel the weight of its sample, or 0 if its class is kIgnored. Runs on the host, which has to check masks.
void weigh_pixels(BatchInput& input, const Batch& batch, const TargetSpec& spec) {
  const Tensor target = input.target.to(cpu_device());
  const int64_t pixels = target.elements() / batch.capacity;
  const Tensor weight = Tensor::empty({target.elements()});
  double total = 0;
  for (int64_t i = 0; i < target.elements(); ++i) {
    const int64_t own = target.data<int64_t>()[i];
    const bool counts = own != TargetSpec::kIgnored;
    if (counts && own >= spec.outputs)
      throw unknown_class(spec, batch.sample_ids[static_cast<size_t>(i / pixels)], own);
    const float of_sample = batch.weight[static_cast<size_t>(i / pixels)];
    weight.data<float>()[i] = counts ? of_sample : 0.0f;
    total += weight.data<float>()[i];
  }
  input.weight = weight;
  input.total_weight = total;
}

/// mix_targets for rows of numbers: two rows per sample, first all own rows, then all partners' rows.
void mix_rows(BatchInput& input, const Batch& batch, std::span<const SampleMix> mixes) {
  const Tensor own = input.target.to(cpu_device()).contiguous_copy();
  const int64_t n = own.size(0), width = own.size(1);
  Tensor rows = Tensor::empty({2 * n, width}), weight = Tensor::empty({2 * n});
  for (int64_t row = 0; row < 2 * n; ++row) {
    const int64_t i = row % n;
    const SampleMix& mix = mixes[static_cast<size_t>(i)];
    const float lambda = mix.partner < 0 ? 1.0f : mix.lambda;
    const int64_t from = row < n || mix.partner < 0 ? i : mix.partner;
    std::copy_n(own.data<float>() + from * width, width, rows.data<float>() + row * width);
    weight.data<float>()[row] = batch.weight[static_cast<size_t>(i)] * (row < n ? lambda : 1.0f - lambda);
  }
  input.target = rows;
  input.weight = weight;
  input.is_mixed = true;
}

/// Multiplies each weight by the weight of its target's class.
void weigh_classes(BatchInput& input, const std::vector<float>& weights) {
  if (weights.empty()) return;
  const auto classes = static_cast<int64_t>(weights.size());
  if (!input.target.device().is_host()) {
    const Tensor table =
        Tensor::from(std::span<const float>(weights), {classes, 1}).to(input.target.device());
    const Tensor factors = engine::embedding(table, input.target);
    input.weight =
        engine::mul(input.weight.to(input.target.device()), engine::reshape(factors, input.weight.shape()));
    return;
  }
  const Tensor weight = input.weight.to(cpu_device()).clone();
  for (int64_t i = 0; i < weight.elements(); ++i) {
    const int64_t own = input.target.data<int64_t>()[i];
    if (own >= 0 && own < classes) weight.data<float>()[i] *= weights[static_cast<size_t>(own)];
  }
  input.weight = weight;
}

BatchInput image_input(const Batch& batch, const BatchField& image, const BatchField* label,
                       const BatchTensors& tensors, const TargetSpec& spec) {
  const engine::NoGrad no_grad;
  BatchInput input;
  const BatchPrep prep = batch.prep != nullptr ? *batch.prep : BatchPrep();
  input.sample_weight.assign(batch.weight.begin(), batch.weight.end());
  input.total_weight = total_of(input.sample_weight, 1);
  const bool mixes = !prep.mix.empty();
  input.pixels = mixes ? engine::batch_prep(tensors.field(image), prep, tensors.mixes())
                       : engine::batch_prep(tensors.field(image), prep);
  if (spec.form == TargetSpec::Form::kClass) {
    input.target = mixes ? tensors.field(*label) : tensors.field(*label).clone();
    input.weight = mixes ? tensors.weight() : tensors.weight().clone();
    if (mixes) mix_targets(input, tensors.mixes());
    weigh_classes(input, spec.class_weights);
    return input;
  }
  if (mixes && (spec.form == TargetSpec::Form::kMask || spec.form == TargetSpec::Form::kBoxes))
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[train] mixup and cutmix do not mix ",
                              spec.form == TargetSpec::Form::kMask ? "masks" : "boxes", "; leave them out")));
  if (spec.form == TargetSpec::Form::kBoxes) {
    add_boxes(input, batch, spec);
    return input;
  }
  input.target = target_of(batch, spec, tensors);
  if (spec.form == TargetSpec::Form::kMask) {
    weigh_pixels(input, batch, spec);
    if (!spec.class_weights.empty()) input.target = input.target.to(cpu_device());
    weigh_classes(input, spec.class_weights);
    return input;
  }
  input.weight = tensors.weight().clone();
  if (mixes) mix_rows(input, batch, prep.mix);
  return input;
}

/// Moves the tensors to `device`; those that are already there are not copied.
void move(BatchInput& input, Device& device) {
  for (Tensor* tensor : {&input.pixels, &input.target, &input.weight}) *tensor = tensor->to(device);
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

// A copy, because an op's kernels may depend on memory alignment, and a grain must have the same bits at any position.
BatchInput BatchInput::part(int64_t index, int64_t count) const {
  if (count == 1) return *this;
  const engine::NoGrad no_grad;
  BatchInput part;
  part.is_mixed = is_mixed;
  const int64_t samples = pixels.size(0) / count;
  part.pixels = rows_of(pixels, index * samples, samples);
  const int64_t halves = is_mixed ? 2 : 1;  // own labels, then the partners'
  const int64_t all = target.size(0) / halves, each = all / count;
  std::vector<Tensor> target_halves, weight_halves;
  for (int64_t half = 0; half < halves; ++half) {
    target_halves.push_back(rows_of(target, half * all + index * each, each));
    weight_halves.push_back(rows_of(weight, half * all + index * each, each));
  }
  part.target = is_mixed ? engine::concat(target_halves, 0) : target_halves.front();
  part.weight = is_mixed ? engine::concat(weight_halves, 0) : weight_halves.front();
  const auto first = sample_weight.begin() + static_cast<std::ptrdiff_t>(index * samples);
  part.sample_weight.assign(first, first + static_cast<std::ptrdiff_t>(samples));
  part.total_weight = total_of(part.sample_weight, each / samples);
  const bool are_boxes = objects.offsets.size() > 1;
  if (are_boxes) {
    part.objects = objects.part(index * samples, samples);
    part.boxes = boxes;
  }
  if (!weight.device().is_host()) return part;
  if (are_boxes) {
    weigh_boxes(part);
  } else if (each != samples && pixels.rank() == 4) {  // pixels; some may not count
    part.total_weight = 0;
    for (int64_t i = 0; i < part.weight.elements(); ++i) part.total_weight += part.weight.data<float>()[i];
  }
  return part;
}

BatchInput batch_input(const Batch& batch, Device& device, const TargetSpec& target) {
  wait_for_batch(batch, device);
  return arrived_batch_input(batch, device, target);
}

Tensor batch_target(const Batch& batch, const TargetSpec& target, Device& device) {
  return target_of(batch, target, BatchTensors(batch, device)).to(cpu_device()).contiguous_copy();
}

void wait_for_batch(const Batch& batch, Device& device) {
  if (batch.ready_event != nullptr)
    throw_if_error(device.wait(engine::engine_stream(device), *batch.ready_event));
}

BatchInput arrived_batch_input(const Batch& batch, Device& device, const TargetSpec& target) {
  const BatchField* image = nullptr;
  const BatchField* label = nullptr;
  const BatchField* tokens = nullptr;
  for (const BatchField& field : batch.fields) {
    if (std::ranges::find(target.fields, field.spec->name) != target.fields.end()) continue;
    if (tokens == nullptr && is_tokens(*field.spec)) tokens = &field;
    if (image == nullptr && is_image(*field.spec)) image = &field;
    if (label == nullptr && is_label(*field.spec)) label = &field;
  }
  const bool has_target = target.form != TargetSpec::Form::kClass || label != nullptr;
  if (tokens == nullptr && (image == nullptr || !has_target))
    throw Error(
        Status(ErrorCode::kUnsupported, "[train] the batch has no images with one label each; see --task"));
  if (tokens != nullptr && batch.prep != nullptr && !batch.prep->mix.empty()) {
    throw Error(Status(ErrorCode::kUnsupported,
                       "[train] mixing samples (mixup, cutmix) is only for images, but these are tokens"));
  }
  const BatchTensors tensors(batch, device);
  BatchInput input = tokens != nullptr ? token_input(batch, *tokens, tensors)
                                       : image_input(batch, *image, label, tensors, target);
  move(input, device);
  return input;
}

CachedBatch::CachedBatch(const Batch& batch)
    : weight_(batch.weight.begin(), batch.weight.end()),
      sample_ids_(batch.sample_ids.begin(), batch.sample_ids.end()),
      batch_(batch) {
  if (batch.prep != nullptr) prep_ = *batch.prep;
  prep_.mix.clear();
  for (const BatchField& field : batch.fields) {
    const int64_t rows = field.spec->ragged ? field.offsets.back() : batch.capacity;
    specs_.push_back(*field.spec);
    data_.emplace_back(field.data, field.data + field.spec->sample_bytes() * static_cast<size_t>(rows));
    offsets_.emplace_back(field.offsets.begin(), field.offsets.end());
  }
  batch_.fields.clear();
  for (size_t i = 0; i < specs_.size(); ++i)
    batch_.fields.push_back({&specs_[i], data_[i].data(), offsets_[i]});
  batch_.weight = weight_;
  batch_.sample_ids = sample_ids_;
  batch_.prep = &prep_;
  batch_.substitutions = {};
  batch_.ready_event = batch_.copy_event = nullptr;
  batch_.last_in_epoch = false;  // the epoch never ends
}

/// A batch of `count` samples, all with weight 1, in memory that the caller owns.
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
                                                 uint64_t seed, const TargetSpec& target) {
  const bool are_numbers = target.form == TargetSpec::Form::kNumbers,
             are_boxes = target.form == TargetSpec::Form::kBoxes,
             are_labels = target.form == TargetSpec::Form::kMultiHot || are_boxes;
  std::vector<FieldSpec> specs = {{"image", DType::kU8, image}, {"label", DType::kI64, {}}};
  if (are_numbers) specs[1] = {target.fields.at(0), DType::kF32, {classes}};
  if (target.form == TargetSpec::Form::kMask)
    specs[1] = {target.fields.at(0), DType::kU8, {image[0], image[1]}};
  if (are_labels) specs[1] = {target.fields.at(are_boxes ? 1 : 0), DType::kI64, {}, true};
  if (are_boxes) specs.push_back({target.fields.at(0), DType::kF32, {4}, true});
  std::vector<uint8_t> pixels(static_cast<size_t>(count * image.elements()));
  std::vector<int64_t> labels(static_cast<size_t>(count));
  RandomStream random(seed, 0);
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random.next_u32());
  for (int64_t& label : labels) label = random.below(static_cast<uint32_t>(classes));
  std::vector<float> numbers(are_numbers ? static_cast<size_t>(count * classes) : 0);
  std::vector<int64_t> offsets(are_labels ? static_cast<size_t>(count + 1) : 0);  // one label each
  std::iota(offsets.begin(), offsets.end(), int64_t{0});
  std::vector<uint8_t> mask(
      target.form == TargetSpec::Form::kMask ? static_cast<size_t>(count * image[0] * image[1]) : 0);
  auto* const targets = !mask.empty() ? reinterpret_cast<std::byte*>(mask.data())
                        : are_numbers ? reinterpret_cast<std::byte*>(numbers.data())
                                      : reinterpret_cast<std::byte*>(labels.data());
  BatchPrep prep;  // results in about zero mean and unit deviation
  prep.scale.fill(1.0f / 64.0f);
  prep.bias.fill(-2.0f);
  std::vector<float> boxes;  // one in the middle of each image
  for (int64_t i = 0; are_boxes && i < count; ++i)
    for (const int64_t side : {image[1] / 4, image[0] / 4, image[1] - image[1] / 4, image[0] - image[0] / 4})
      boxes.push_back(static_cast<float>(side));
  std::vector<float> weight;
  std::vector<int64_t> ids;
  std::vector<BatchField> fields = {{&specs[0], reinterpret_cast<std::byte*>(pixels.data()), {}},
                                    {&specs[1], targets, offsets}};
  if (are_boxes) fields.push_back({&specs[2], reinterpret_cast<std::byte*>(boxes.data()), offsets});
  Batch batch = whole_batch(count, std::move(fields), weight, ids);
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
