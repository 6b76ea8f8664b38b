// Training, evaluation and prediction: what the commands of these names run.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/log.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/io/data/codec/raw.h"
#include "dlpipe/python/answers.h"
#include "dlpipe/python/arrays.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/loader.h"
#include "dlpipe/python/paths.h"
#include "dlpipe/python/pictures.h"
#include "dlpipe/python/subjects.h"
#include "dlpipe/python/task.h"
#include "dlpipe/python/waiting.h"
#include "dlpipe/run/config/given_options.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/train/outcome_json.h"
#include "dlpipe/run/train/session.h"
#include "dlpipe/run/use/answers_json.h"
#include "dlpipe/run/use/evaluate_dataset.h"
#include "dlpipe/run/use/picture_list.h"
#include "dlpipe/run/use/predictor.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

void tell(std::string_view note) {
  log(LogLevel::kWarning, note);
}

nb::dict metrics_dict(const run::EvalReport& report) {
  nb::dict metrics;
  for (const auto& [name, value] : report.metrics) metrics[name.c_str()] = value;
  return metrics;
}

/// Hands on what a run tells to the functions that were given; None: to nobody.
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

/// With the functions that Python made augmentations.
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
  const run::TrainConfig config =
      run::read_options(config_file, given, [](const std::string& line) { tell(line); });
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
                                "; saved; go on with dlpipe.train(resume='", session->config().out, "')")));
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
nb::tuple evaluate(const nb::dict& model, const nb::bytes& data, const std::string& split, int64_t batch,
                   int threads, int64_t limit, const std::string& device, bool tf32, bool report,
                   bool predictions, int64_t top, const nb::object& progress) {
  if (batch < 1) refuse("eval", "batch ", batch, "; give at least 1");
  if (top < 1) refuse("eval", "top ", top, "; give at least 1");
  Task task;
  run::EvaluateOptions options;
  options.model = model_options(model);
  options.data = to_path(data);
  options.split = split;
  options.batch = batch;
  options.threads = threads;
  options.limit = limit;
  options.device = device;
  options.tf32 = tf32;
  options.report = report;
  options.top = top;
  options.stop = &task.stop_requested();
  options.on_note = [](const std::string& note) { tell(note); };
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

/// The model's own place for one thread at a time, which the calling thread is.
class OpenPredictor {
 public:
  explicit OpenPredictor(const run::PredictOptions& options) {
    Task task;
    task.run([&] { predictor_ = std::make_unique<run::Predictor>(options, registries()); });
    known_ = predictor_.get();
    for (const std::string& note : model().notes) tell(note);
    pass_log_on();
  }

  /// `pictures`: a sequence; `load` makes each the bytes or pixels of a picture, when its batch's turn comes.
  nb::any probabilities(const nb::object& pictures, const nb::callable& load) {
    const size_t count = nb::len(pictures), at_once = known_->rows_at_once(count);
    std::vector<float> rows;
    for (size_t begin = 0; begin < count; begin += at_once) {
      std::vector<run::PictureFile> files;
      for (size_t i = begin; i < std::min(begin + at_once, count); ++i) {
        const PythonCall call;
        const std::vector<std::byte> bytes = picture_bytes(load(pictures[i]));
        files.push_back({"", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), {}});
      }
      unlocked([&]() -> Status {
        const MutexLock lock(mutex_);
        try {
          predictor_->append_probabilities(files, at_once, begin, rows);
          return {};
        } catch (...) {
          return status_from_current_exception("predict");
        }
      });
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    const auto memory = std::make_shared<std::vector<float>>(std::move(rows));
    const size_t classes = model().state.classes.size();
    return make_array(Framework::kNumpy, memory->data(), {DType::kF32, {count, classes}, {}}, memory);
  }

  nb::any predict(const std::vector<std::string>& paths, const nb::object& progress) {
    Task task;
    std::vector<std::string> lines;
    task.run([&] {
      const run::PictureList list = value_or_throw(run::list_pictures(paths));
      if (!list.left_aside.empty()) tell(concat("[predict] left aside, no pictures: ", list.left_aside));
      const std::span<const run::PictureFile> files(list.files);
      const size_t at_once = known_->rows_at_once(files.size());
      for (size_t begin = 0; begin < files.size() && !task.stop_requested(); begin += at_once) {
        {
          const MutexLock lock(mutex_);  // not while `progress` runs, which may call this predictor
          predictor_->predict_batch(files.subspan(begin, std::min(at_once, files.size() - begin)),
                                    static_cast<int64_t>(at_once), [&](const run::Prediction& prediction) {
                                      lines.push_back(run::to_json(prediction).dump());
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
  Mutex mutex_;
  std::unique_ptr<run::Predictor> predictor_ DLPIPE_POINTEE_GUARDED_BY(mutex_);
  // The same one, of which only what no work changes is read: model(), rows_at_once(). Those who ask hold Python's lock,
  // which whoever works may wait for.
  const run::Predictor* known_ = nullptr;
};

}  // namespace

void bind_train(nb::module_& module) {
  module.def("train", train, nb::arg("resume"), nb::arg("config"), nb::arg("given"),
             nb::arg("on_step").none(), nb::arg("on_progress").none(), nb::arg("on_validation").none());
  module.def("evaluate", evaluate, nb::kw_only(), nb::arg("model"), nb::arg("data"), nb::arg("split"),
             nb::arg("batch"), nb::arg("threads"), nb::arg("limit"), nb::arg("device"), nb::arg("tf32"),
             nb::arg("report"), nb::arg("predictions"), nb::arg("top"), nb::arg("progress").none());
  nb::class_<OpenPredictor>(module, "Predictor")
      .def(
          "__init__",
          [](OpenPredictor* self, const nb::dict& model, int64_t batch, int threads,
             const std::string& device, int64_t max_pixels, int64_t top) {
            run::PredictOptions options = predict_options(model, batch, threads, device, max_pixels);
            if (top < 1) refuse("predict", "top ", top, "; give at least 1");
            options.top = top;
            new (self) OpenPredictor(options);
          },
          nb::kw_only(), nb::arg("model"), nb::arg("batch"), nb::arg("threads"), nb::arg("device"),
          nb::arg("max_pixels"), nb::arg("top"))
      .def("probabilities", &OpenPredictor::probabilities, nb::arg("pictures"), nb::arg("load"))
      .def(
          "predict",
          [](OpenPredictor& self, const std::vector<nb::bytes>& paths, const nb::object& progress) {
            std::vector<std::string> list;
            list.reserve(paths.size());
            for (const nb::bytes& path : paths) list.push_back(to_path(path));
            return self.predict(list, progress);
          },
          nb::arg("paths"), nb::arg("progress").none())
      .def_prop_ro("classes", [](const OpenPredictor& self) { return to_texts(self.model().state.classes); })
      .def_prop_ro("model", [](const OpenPredictor& self) { return self.model().state.model; })
      .def_prop_ro("val_augment", [](const OpenPredictor& self) { return self.model().state.val_augment; });
}

}  // namespace dlpipe::python
