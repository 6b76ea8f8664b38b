#include "dlpipe/run/loaded_model.h"

#include <algorithm>
#include <filesystem>

#include "dlpipe/base/log.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/cpu/kernel_table.h"
#include "dlpipe/engine/cpu/parallel.h"
#include "dlpipe/engine/device_code.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/run/data_paths.h"
#include "dlpipe/run/precision.h"
#include "dlpipe/run/preprocess.h"

namespace dlpipe::run {

// The kernels that the run took, where the checkpoint still lies in it: so evaluation gives the validation's
// numbers to the last bit.
static void take_kernels_of_run(const std::string& checkpoint) {
  const std::filesystem::path file =
      std::filesystem::path(checkpoint).parent_path().parent_path() / "kernels.json";
  if (!std::filesystem::exists(file)) return;
  const Result<std::string> text = formats::read_file(file.string());
  const Status status = text.ok() ? engine::kernel_table().load(*text) : text.status();
  if (!status.ok()) log(LogLevel::kWarning, concat(status.message(), "; ", file.string(), " is not used"));
}

LoadedModel load_model(const std::string& path, const Registries& registries) {
  const std::string directory = value_or_throw(find_checkpoint(path));
  const Checkpoint checkpoint = value_or_throw(load_checkpoint(directory, false));
  LoadedModel loaded{nullptr, checkpoint.state.model, directory, checkpoint.state.trainer.step};
  const engine::ModelRecord* record = value_or_throw(registries.model_registry().find(loaded.state.model));
  loaded.model = record->build(loaded.state.arguments);
  loaded.model->load_state_dict(checkpoint.tensors.ema.empty() ? checkpoint.tensors.model
                                                               : checkpoint.tensors.ema);
  loaded.model->eval();
  take_kernels_of_run(directory);
  return loaded;
}

// The largest batch that is of use: rows without a sample are computed, too. In 64s, so that a validation set
// that fits one of the run's batches is judged in the shapes, and by the kernels, of the run.
static int64_t rows_for(const std::string& dataset, int64_t limit) {
  constexpr int64_t kRows = 64;
  const auto opened = value_or_throw(data::Dataset::open(dataset));
  const int64_t samples = limit < 0 ? opened->size() : std::min(limit, opened->size());
  return std::max<int64_t>(1, (samples + kRows - 1) / kRows) * kRows;
}

Evaluation evaluate_checkpoint(const EvaluateOptions& options, const Registries& registries,
                               const LogitsObserver& observer) {
  const int threads = options.threads > 0 ? options.threads : available_threads();
  engine::set_engine_threads(threads);
  Evaluation evaluation;
  Device& device = *value_or_throw(registries.find_device(options.device));
  evaluation.model = load_model(options.checkpoint, registries);
  evaluation.model.model->to(device);
  const ModelState& state = evaluation.model.state;
  evaluation.data = value_or_throw(validation_data("", options.data));

  throw_if_error(check_input_kind(state.model, state.arguments.length > 0, evaluation.data,
                                  value_or_throw(image_channels(evaluation.data))));

  pipeline::LoaderOptions loader;
  loader.data = evaluation.data;
  loader.augment = state.val_augment;
  loader.channels = static_cast<int>(state.arguments.channels);
  loader.batch = std::min(options.batch, rows_for(evaluation.data, options.limit));
  loader.threads = threads;
  loader.limit = options.limit;
  loader.epochs = 1;
  loader.ops = registries.augmentations;
  loader.device = &device;
  if (!device.is_host()) loader.coef_decode = engine::device_code(device).decode_coefficients;
  const auto source = value_or_throw(pipeline::Loader::open(pipeline::validation_options(loader)));
  throw_if_error(
      check_classes("the checkpoint", state.classes, evaluation.data, source->dataset().classes()));

  EvalOptions eval;
  eval.loss = value_or_throw(find_loss(state.loss, registries.losses));
  eval.dtype = value_or_throw(inference_dtype(state.dtype, device));
  eval.tf32 = take_tf32(options.tf32, device);
  eval.views = value_or_throw(parse_views(state.tta));
  eval.stop = options.stop;
  for (const std::string& metric : state.metrics) {
    eval.metrics.push_back(value_or_throw(registries.find_metric(metric)));
  }
  evaluation.report = evaluate(*evaluation.model.model, *source, eval, observer);
  return evaluation;
}

}  // namespace dlpipe::run
