// Training, evaluation and prediction, as the commands of these names do them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "dlpipe/predictor.h"
#include "dlpipe/session.h"
#include "io/data/codec/bitmaps.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"
#include "run/config/choices.h"
#include "run/train/outcome.h"
#include "run/use/graph_model.h"
#include "run/use/predict.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

void tell(std::string_view note) {
  log(LogLevel::kWarning, note);
}
/// Logs what a command prints about its choices, such as the split. A caller that wants it sets the logger's level.
void mention(std::string_view note) {
  log(LogLevel::kInfo, note);
}

nb::dict metrics_dict(const run::EvalReport& report) {
  nb::dict metrics;
  for (const auto& [name, value] : report.metrics) metrics[name.c_str()] = value;
  return metrics;
}

/// Forwards a run's reports to the caller's functions. None: no function.
class Observer : public run::TrainObserver {
 public:
  Observer(Task& task, nb::object on_step, nb::object on_progress, nb::object on_validation)
      : task_(task),
        on_step_(std::move(on_step)),
        on_progress_(std::move(on_progress)),
        on_validation_(std::move(on_validation)) {}

  void on_step(int64_t step, double loss) override {
    if (on_step_.is_valid()) task_.call([&] { on_step_(step, loss); });
  }
  void on_progress(const run::ProgressReport& report) override {
    if (!on_progress_.is_valid()) return;
    task_.call([&] {
      nb::dict dict;
      dict["step"] = report.step;
      dict["total_steps"] = report.total_steps;
      dict["epoch"] = report.epoch;
      dict["epochs"] = report.epochs;
      dict["loss"] = report.loss;
      dict["loss_steps"] = report.loss_steps;
      dict["lr"] = report.lr;
      dict["samples_per_s"] = report.samples_per_s;
      dict["data_wait_share"] = report.data_wait_share;
      dict["remaining_s"] = report.eta_seconds;
      dict["limit"] = report.limiting_stage;
      on_progress_(dict);
    });
  }
  void on_validation(const run::ValidationReport& report) override {
    if (!on_validation_.is_valid()) return;
    task_.call([&] {
      nb::dict dict;
      dict["step"] = report.step;
      dict["epoch"] = report.epoch;
      dict["samples"] = report.result.samples;
      dict["loss"] = report.result.loss;
      dict["metrics"] = metrics_dict(report.result);
      dict["is_best"] = report.is_best;
      on_validation_(dict);
    });
  }
  void on_note(std::string_view text) override { tell(text); }
  void on_warning(std::string_view text) override {
    tell(text);
    warnings_.emplace_back(text);
  }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Task& task_;
  nb::object on_step_, on_progress_, on_validation_;
  std::vector<std::string> warnings_;
};

/// Includes the functions that Python registered as augmentations.
run::Registries registries() {
  run::Registries registries;
  registries.augmentations = known_ops();
  return registries;
}

nb::object or_nothing(const nb::object& function) {
  return function.is_none() ? nb::object() : function;
}

std::unique_ptr<run::Session> open_session(const std::string& resume, const std::string& config_file,
                                           const run::GivenOptions& given, Observer& observer) {
  if (!resume.empty()) return run::Session::resume(resume, given, registries(), &observer);
  const run::TrainConfig config = run::read_options(
      config_file, given, [](const std::string& line) { tell(line); }, run::output_of_file);
  if (config.out.empty() && config.overfit_batch == 0)
    refuse("train", "no run directory; give out='runs/NAME'");
  return std::make_unique<run::Session>(config, registries(), &observer);
}

nb::any train(const nb::bytes& resume, const nb::bytes& config_file,
              const std::vector<std::pair<std::string, nb::bytes>>& options, const nb::object& on_step,
              const nb::object& on_progress, const nb::object& on_validation) {
  Task task;
  Observer observer(task, or_nothing(on_step), or_nothing(on_progress), or_nothing(on_validation));
  const std::string from = to_path(resume), file = to_path(config_file);
  run::GivenOptions given;
  for (const auto& [name, value] : options) given.emplace_back(name, to_path(value));
  std::string answer;
  task.run([&] {
    const auto session = open_session(from, file, given, observer);
    const run::TrainOutcome outcome = session->train(&task.stop_requested());
    if (outcome.stopped)
      throw Error(Status(ErrorCode::kCancelled,
                         concat("[train] stopped after step ", outcome.steps,
                                "; saved; resume with dlpipe.train(resume='", session->config().out, "')")));
    answer = run::outcome_json(outcome, session->config(), observer.warnings()).dump();
  });
  return from_json(answer);
}

run::ModelOptions model_options(const nb::dict& given) {
  const auto text = [&](const char* name) { return nb::cast<std::string>(given[name]); };
  run::ModelOptions model;
  model.weights = to_path(nb::cast<nb::bytes>(given["weights"]));
  model.model = text("model");
  model.classes = to_path(nb::cast<nb::bytes>(given["classes"]));
  model.val_augment = text("val_augment");
  model.tta = text("tta");
  model.dtype = text("dtype");
  return model;
}

/// (what `eval --json` prints, the lines of --predictions)
nb::tuple evaluate(const nb::dict& model, const nb::bytes& data, const std::string& split,
                   const std::string& fold, int64_t batch, int threads, int64_t limit,
                   const std::string& device, bool tf32, bool report, bool predictions, int64_t top,
                   const nb::object& progress) {
  if (batch < 1) refuse("eval", "batch ", batch, "; give at least 1");
  if (top < 1) refuse("eval", "top ", top, "; give at least 1");
  Task task;
  run::EvaluateOptions options;
  options.model = model_options(model);
  options.data = to_path(data);
  options.split = split;
  options.fold = fold;
  options.batch = batch;
  options.threads = threads;
  options.limit = limit;
  options.device = device;
  options.tf32 = tf32;
  options.report = report;
  options.top = top;
  options.stop = &task.stop_requested();
  options.on_note = mention;
  if (!progress.is_none()) {
    options.on_progress = [&](int64_t done, int64_t total) { task.call([&] { progress(done, total); }); };
  }
  std::vector<std::string> lines;
  if (predictions) {
    options.on_sample = [&](const run::SampleAnswer& answer, const std::vector<std::string>& classes) {
      lines.push_back(run::to_json(answer, classes).dump());
    };
  }
  std::string answer;
  task.run([&] { answer = run::to_json(run::evaluate_dataset(options, registries())).dump(); });
  return nb::make_tuple(from_json(answer), from_json_lines(lines));
}

run::PredictOptions predict_options(const nb::dict& model, int64_t batch, int threads,
                                    const std::string& device, int64_t max_pixels) {
  if (batch < 1) refuse("predict", "batch ", batch, "; give at least 1");
  if (threads < 0) refuse("predict", "threads ", threads, "; give at least 0");
  run::PredictOptions options;
  options.model = model_options(model);
  options.batch = batch;
  options.threads = threads;
  options.device = device;
  options.max_pixels = max_pixels;
  return options;
}

/// A predictor with its model, for one calling thread at a time.
class OpenPredictor {
 public:
  explicit OpenPredictor(const run::PredictOptions& options) {
    Task task;
    task.run([&] { predictor_ = std::make_unique<run::Predictor>(options, registries()); });
    known_ = predictor_.get();
    for (const std::string& note : model().notes) mention(note);
    pass_log_on();
  }

  /// Probabilities or values, [images, outputs]. `images`: a sequence. `load` converts each item to the bytes or pixels of an image,
  /// when its batch is processed.
  nb::any probabilities(const nb::object& images, const nb::callable& load) {
    std::vector<float> rows;
    each_batch(images, load, [&](run::Predictor& model, const Files& files, size_t at_once, size_t begin) {
      model.append_probabilities(files, at_once, begin, rows);
    });
    const size_t count = nb::len(images), classes = model().state.classes.size();
    return to_array(std::move(rows), DType::kF32, {count, classes});
  }

  /// For each image: (mask, shares by class name) of a model of masks, (boxes, scores, labels) of a model of boxes.
  nb::list predictions(const nb::object& images, const nb::callable& load) {
    std::vector<run::Prediction> made;
    each_batch(images, load, [&](run::Predictor& model, const Files& files, size_t at_once, size_t) {
      model.predict_batch(files, static_cast<int64_t>(at_once), [&](const run::Prediction& one) {
        if (!one.error.empty())
          throw Error(Status(one.error_code, concat("[predict] image ", made.size(), ": ", one.error)));
        made.push_back(one);
        made.back().pixels = {};
        made.back().mask = {};
        return true;
      });
    });
    nb::list list;
    for (run::Prediction& one : made) list.append(one.task == "segment" ? mask_of(one) : boxes_of(one));
    return list;
  }

  /// `draw`: the directory for drawings of masks and boxes, or "".
  nb::any predict(const std::vector<std::string>& paths, const std::string& draw,
                  const nb::object& progress) {
    const std::string& of = model().state.task.name;
    if (!draw.empty() && of != "segment" && of != "detect")
      refuse("predict", "draw= draws masks and boxes, and this model's task is ", of, "; leave it out");
    Task task;
    run::PredictionDrawer drawer(draw);
    std::vector<std::string> lines;
    task.run([&] {
      const run::ImageList list = value_or_throw(run::list_images(paths));
      if (!list.left_aside.empty())
        tell(concat("[predict] ignored because they are not images: ", list.left_aside));
      const std::span<const run::ImageFile> files(list.files);
      const size_t at_once = known_->rows_at_once(files.size());
      for (size_t begin = 0; begin < files.size() && !task.stop_requested(); begin += at_once) {
        {
          const MutexLock lock(mutex_);  // not while `progress` runs, which may call this predictor
          predictor_->predict_batch(files.subspan(begin, std::min(at_once, files.size() - begin)),
                                    static_cast<int64_t>(at_once), [&](const run::Prediction& prediction) {
                                      const std::string drawing =
                                          draw.empty() ? "" : value_or_throw(drawer.draw(prediction));
                                      lines.push_back(run::to_json(prediction, drawing).dump());
                                      return true;
                                    });
        }
        if (progress.is_none()) continue;
        const auto done = static_cast<int64_t>(lines.size());
        task.call([&] { progress(done, static_cast<int64_t>(files.size())); });
      }
    });
    return from_json_lines(lines);
  }

  const run::LoadedModel& model() const { return known_->model(); }

 private:
  using Files = std::vector<run::ImageFile>;

  /// Reads the images of one batch at a time, and calls `work` for each batch without Python's lock. Ctrl-C stops it between batches.
  void each_batch(
      const nb::object& images, const nb::callable& load,
      const std::function<void(run::Predictor&, const Files&, size_t at_once, size_t begin)>& work) {
    const size_t count = nb::len(images), at_once = known_->rows_at_once(count);
    for (size_t begin = 0; begin < count; begin += at_once) {
      Files files;
      for (size_t i = begin; i < std::min(begin + at_once, count); ++i) {
        const PythonCall call;
        const std::vector<std::byte> bytes = image_bytes(load(images[i]));
        files.push_back({"", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), {}});
      }
      unlocked([&]() -> Status {
        const MutexLock lock(mutex_);
        try {
          work(*predictor_, files, at_once, begin);
          return {};
        } catch (...) {
          return status_from_current_exception("predict");
        }
      });
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }

  template <class T>
  static nb::any to_array(std::vector<T> values, DType dtype, std::vector<size_t> shape) {
    const auto memory = std::make_shared<std::vector<T>>(std::move(values));
    return make_array(Framework::kNumpy, memory->data(), {dtype, std::move(shape), {}}, memory);
  }

  static nb::tuple mask_of(run::Prediction& one) {
    nb::dict shares;
    for (const auto& [name, share] : one.values) shares[to_text(name)] = share;
    return nb::make_tuple(to_array(std::move(one.whole_mask), DType::kU8,
                                   {static_cast<size_t>(one.height), static_cast<size_t>(one.width)}),
                          shares);
  }

  static nb::tuple boxes_of(const run::Prediction& one) {
    std::vector<float> sides, scores;
    std::vector<int64_t> labels;
    for (const run::PredictedBox& box : one.boxes) {
      for (const double side : box.box) sides.push_back(static_cast<float>(side));
      scores.push_back(static_cast<float>(box.score));
      labels.push_back(static_cast<int64_t>(box.number));
    }
    const size_t count = labels.size();
    return nb::make_tuple(to_array(std::move(sides), DType::kF32, {count, 4}),
                          to_array(std::move(scores), DType::kF32, {count}),
                          to_array(std::move(labels), DType::kI64, {count}));
  }

  Mutex mutex_;
  std::unique_ptr<run::Predictor> predictor_ DLPIPE_POINTEE_GUARDED_BY(mutex_);
  // The same predictor, to read what calls don't change (model(), rows_at_once()) without mutex_. The readers hold Python's lock,
  // and a call that holds mutex_ may be waiting for that.
  const run::Predictor* known_ = nullptr;
};

}  // namespace

void bind_train(nb::module_& module) {
  module.def("train", train, nb::arg("resume"), nb::arg("config"), nb::arg("given"),
             nb::arg("on_step").none(), nb::arg("on_progress").none(), nb::arg("on_validation").none());
  module.def("evaluate", evaluate, nb::kw_only(), nb::arg("model"), nb::arg("data"), nb::arg("split"),
             nb::arg("fold"), nb::arg("batch"), nb::arg("threads"), nb::arg("limit"), nb::arg("device"),
             nb::arg("tf32"), nb::arg("report"), nb::arg("predictions"), nb::arg("top"),
             nb::arg("progress").none());
  nb::class_<OpenPredictor>(module, "Predictor")
      .def(
          "__init__",
          [](OpenPredictor* self, const nb::dict& model, int64_t batch, int threads,
             const std::string& device, int64_t max_pixels, int64_t top, std::optional<double> threshold) {
            run::PredictOptions options = predict_options(model, batch, threads, device, max_pixels);
            if (top < 1) refuse("predict", "top ", top, "; give at least 1");
            options.top = top;
            if (threshold && !(*threshold >= 0 && *threshold <= 1))
              refuse("predict", "threshold ", *threshold, "; give 0 to 1");
            options.threshold = threshold;
            new (self) OpenPredictor(options);
          },
          nb::kw_only(), nb::arg("model"), nb::arg("batch"), nb::arg("threads"), nb::arg("device"),
          nb::arg("max_pixels"), nb::arg("top"), nb::arg("threshold").none())
      .def("probabilities", &OpenPredictor::probabilities, nb::arg("images"), nb::arg("load"))
      .def("predictions", &OpenPredictor::predictions, nb::arg("images"), nb::arg("load"))
      .def(
          "predict",
          [](OpenPredictor& self, const std::vector<nb::bytes>& paths, const nb::bytes& draw,
             const nb::object& progress) {
            std::vector<std::string> list;
            list.reserve(paths.size());
            for (const nb::bytes& path : paths) list.push_back(to_path(path));
            return self.predict(list, to_path(draw), progress);
          },
          nb::arg("paths"), nb::arg("draw"), nb::arg("progress").none())
      .def_prop_ro("classes", [](const OpenPredictor& self) { return to_texts(self.model().state.classes); })
      .def_prop_ro("task", [](const OpenPredictor& self) { return self.model().state.task.name; })
      .def_prop_ro("model", [](const OpenPredictor& self) { return self.model().state.model; })
      .def_prop_ro("val_augment", [](const OpenPredictor& self) { return self.model().state.val_augment; });
}

}  // namespace dlpipe::python
