#include "dlpipe/run/use/predictor.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/use/class_report.h"
#include "dlpipe/run/use/views.h"

namespace dlpipe::run {

using engine::Tensor;

Predictor::Predictor(const PredictOptions& options, const Registries& registries) : options_(options) {
  engine::set_engine_threads(options.threads > 0 ? options.threads : available_threads());
  model_ = load_model(options.model, registries);
  model_.model->to(*value_or_throw(registries.find_device(options.device)));
  constants_ = weights_as_constants(model_.model->parameters());
  if (model_.state.arguments.length > 0) {
    refuse("predict", model_.state.model, " takes tokens, no pictures; see dlpipe generate");
  }
  chain_ = value_or_throw(augment::Chain::parse(model_.state.val_augment, registries.augmentations));
  throw_if_error(chain_.fill_prep(prep_));
  const engine::ModelArguments& made_for = model_.state.arguments;
  size_ = value_or_throw(chain_.output({static_cast<int>(made_for.width), static_cast<int>(made_for.height),
                                        static_cast<int>(made_for.channels)}));
}

size_t Predictor::rows_at_once(size_t pictures) const {
  return std::min(static_cast<size_t>(options_.batch), pictures);
}

void Predictor::predict(std::span<const PictureFile> files,
                        const std::function<bool(const Prediction&)>& sink) {
  // All batches are of one size, so that a kernel is chosen once; rows without a file are computed, too.
  const size_t batch = rows_at_once(files.size());
  for (size_t begin = 0; begin < files.size(); begin += batch) {
    const auto there = files.subspan(begin, std::min(batch, files.size() - begin));
    if (!predict_batch(there, static_cast<int64_t>(batch), sink)) return;
  }
}

bool Predictor::predict_piece(std::span<const PictureFile> files,
                              const std::function<bool(const Prediction&)>& sink) {
  return predict_batch(files, static_cast<int64_t>(rows_at_once(std::bit_ceil(files.size()))), sink);
}

Status Predictor::load_image(const PictureFile& file, uint8_t* pixels) const {
  if (!file.problem.empty()) return Status(ErrorCode::kIo, file.problem);
  const int channels = size_.channels;
  const auto load = [&]() -> Status {
    std::string read;
    if (!file.bytes) {
      DLPIPE_ASSIGN_OR_RETURN(read, formats::read_file(file.path));
    }
    const std::string& text = file.bytes ? *file.bytes : read;
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_image(bytes));
    DLPIPE_RETURN_IF_ERROR(data::check_pixels(info, options_.max_pixels));
    const bool is_turned = swaps_axes(info.orientation);
    augment::ImageSize size{is_turned ? info.height : info.width, is_turned ? info.width : info.height,
                            channels};
    augment::ChainPlan plan;
    DLPIPE_RETURN_IF_ERROR(chain_.plan(size, SampleKey{}, plan));
    const Region& region = plan.source_region;
    std::vector<uint8_t> decoded(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) *
                                 static_cast<size_t>(channels));
    const ImageView source{decoded.data(), region.width, region.height, channels,
                           static_cast<ptrdiff_t>(region.width) * channels};
    data::ImageDecoder decoder({.max_pixels = options_.max_pixels});
    DLPIPE_RETURN_IF_ERROR(decoder.decode_oriented(bytes, info, region, source));
    const ImageView out{pixels, size_.width, size_.height, channels,
                        static_cast<ptrdiff_t>(size_.width) * channels};
    augment::ChainScratch scratch;
    return chain_.apply(plan, source, out, scratch);
  };
  try {
    return load();
  } catch (...) {
    return status_from_current_exception("predict");
  }
}

Tensor Predictor::batch_logits(std::span<const PictureFile> files, int64_t batch,
                               std::vector<Status>& errors) {
  const Tensor bytes = Tensor::zeros({batch, size_.height, size_.width, size_.channels}, DType::kU8);
  errors.resize(files.size());
  const int64_t image_bytes = int64_t{size_.height} * size_.width * size_.channels;
  engine::parallel_slices(static_cast<int64_t>(files.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    errors[at] = load_image(files[at], bytes.data<uint8_t>() + i * image_bytes);
  });
  const engine::NoGrad no_grad;
  const engine::UseConstantCache packed_once(&constants_);
  const engine::UseAutocast autocast(dtype_of(model_, options_.model.dtype));
  return view_logits(*model_.model, engine::batch_prep(bytes.to(model_.model->device()), prep_),
                     value_or_throw(parse_views(model_.state.tta)))
      .contiguous_copy()
      .to(cpu_device());
}

constexpr const char* kNoProbabilities = "the model answers NaN or infinity, so no class has a probability";

void Predictor::append_probabilities(std::span<const PictureFile> files, size_t rows, size_t begin,
                                     std::vector<float>& all) {
  std::vector<Status> errors;
  const Tensor logits = batch_logits(files, static_cast<int64_t>(rows), errors);
  const auto classes = static_cast<size_t>(logits.size(1));
  for (size_t i = 0; i < files.size(); ++i) {
    if (!errors[i].ok())
      throw Error(
          Status(errors[i].code(), concat("[predict] picture ", begin + i, ": ", errors[i].message())));
    const std::vector<double> probabilities = probabilities_of({logits.data<float>() + i * classes, classes});
    if (std::isnan(probabilities.front()))
      throw Error(
          Status(ErrorCode::kNonfinite, concat("[predict] picture ", begin + i, ": ", kNoProbabilities)));
    for (const double p : probabilities) all.push_back(static_cast<float>(p));
  }
}

Prediction Predictor::prediction_of(const std::string& path, const std::string& error,
                                    std::span<const float> logits) const {
  Prediction prediction{path, {}, error};
  if (!error.empty()) return prediction;
  const std::vector<double> probabilities = probabilities_of(logits);
  const auto count = static_cast<size_t>(std::max<int64_t>(options_.top, 1));
  for (const size_t c : top_classes(logits, count))
    prediction.top.emplace_back(model_.state.classes.at(c), probabilities[c]);
  if (std::isnan(probabilities.front())) {
    prediction.top.clear();
    prediction.error = kNoProbabilities;
  }
  return prediction;
}

bool Predictor::predict_batch(std::span<const PictureFile> files, int64_t rows,
                              const std::function<bool(const Prediction&)>& sink) {
  std::vector<Status> errors;
  const Tensor logits = batch_logits(files, rows, errors);
  const auto classes = static_cast<size_t>(logits.size(1));
  for (size_t i = 0; i < files.size(); ++i) {
    const std::span<const float> row(logits.data<float>() + i * classes, classes);
    if (!sink(prediction_of(files[i].path, errors[i].message(), row))) return false;
  }
  return true;
}

}  // namespace dlpipe::run
