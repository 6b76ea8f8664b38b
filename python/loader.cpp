#include "dlpipe/python/loader.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/ragged_field.h"
#include "dlpipe/pipeline/feed.h"
#include "dlpipe/python/arrays.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/waiting.h"
#include "dlpipe/run/input/data_paths.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/stage_report.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using pipeline::Feed;
using LentPointer = std::shared_ptr<Feed::Lent>;

/// How long a waiting thread goes without asking Python whether Ctrl-C was pressed.
constexpr std::chrono::milliseconds kPatience(40);

/// What all batches of a loader are handed out as.
struct BatchForm {
  Framework framework = Framework::kNumpy;
  bool channels_first = false;
  int image_field = -1;
  int label_field = -1;
  std::shared_ptr<const data::Dataset> dataset;
};

/// One lent batch; arrays made of it keep it.
struct LentBatch {
  LentPointer lent;
  BatchForm form;
  // where samples are mixed, [count]: the partners' labels, and the weight of the samples' own
  std::vector<int64_t> partner_labels;
  std::vector<float> own_weights;

  const Batch& batch() const { return lent->batch(); }
};

LentBatch make_lent(LentPointer lent, const BatchForm& form) {
  LentBatch made{std::move(lent), form, {}, {}};
  const Batch& batch = made.batch();
  if (batch.mixed.empty() || form.label_field < 0) return made;
  const auto* labels =
      reinterpret_cast<const int64_t*>(batch.fields[static_cast<size_t>(form.label_field)].data);
  for (int64_t i = 0; i < batch.count; ++i) {
    const SampleMix& mix = batch.mixed[static_cast<size_t>(i)];
    made.partner_labels.push_back(labels[mix.partner < 0 ? i : mix.partner]);
    made.own_weights.push_back(mix.partner < 0 ? 1.0f : mix.lambda);
  }
  return made;
}

nb::tuple field_arrays(nb::handle owner) {
  auto& self = nb::cast<LentBatch&>(owner);
  const Framework framework = self.form.framework;
  const int64_t count = self.batch().count;
  nb::list arrays;
  int index = 0;
  for (const BatchField& field : self.batch().fields) {
    if (field.spec->ragged) {
      const auto used = field.offsets.first(static_cast<size_t>(count) + 1);
      arrays.append(
          nb::make_tuple(make_array(framework, field.data,
                                    dense_form(field.spec->dtype, used.back(), field.spec->shape), owner),
                         make_array(framework, const_cast<int64_t*>(used.data()),
                                    dense_form(DType::kI64, count + 1, {}), owner)));
      ++index;
      continue;
    }
    ArrayForm form = dense_form(field.spec->dtype, count, field.spec->shape);
    if (index++ == self.form.image_field && self.form.channels_first) form = channels_first(form);
    arrays.append(make_array(framework, field.data, form, owner));
  }
  if (!self.own_weights.empty()) {
    arrays.append(
        make_array(framework, self.partner_labels.data(), dense_form(DType::kI64, count, {}), owner));
    arrays.append(make_array(framework, self.own_weights.data(), dense_form(DType::kF32, count, {}), owner));
  }
  return nb::tuple(arrays);
}

/// Names of a batch's fields, in the order of field_arrays.
std::vector<std::string> field_names(const pipeline::Setup& setup) {
  std::vector<std::string> names;
  for (const FieldSpec& spec : setup.schema) names.push_back(spec.name);
  if (setup.mixing.is_on() && setup.label_field >= 0) {
    names.emplace_back("partner_label");
    names.emplace_back("lam");
  }
  return names;
}

/// (bytes, offsets) of a field without a fixed size as the dataset has it.
nb::tuple ragged(const LentBatch& self, const std::string& field) {
  const Batch& batch = self.batch();
  data::RaggedField read = unlocked([&] {
    return data::read_ragged_field(*self.form.dataset,
                                   batch.sample_ids.first(static_cast<size_t>(batch.count)), field);
  });
  return nb::make_tuple(nb::bytes(read.bytes.data(), read.bytes.size()), std::move(read.offsets));
}

nb::list substitutions(const LentBatch& self) {
  nb::list list;
  for (const Substitution& one : self.batch().substitutions) {
    nb::dict entry;
    entry["position"] = one.position;
    entry["bad_sample"] = one.bad_sample;
    entry["used_sample"] = one.used_sample;
    entry["reason"] = to_text(one.reason);
    list.append(entry);
  }
  return list;
}

/// The loader. Its functions let go of the interpreter lock while they wait.
class LoaderFeed {
 public:
  LoaderFeed(std::unique_ptr<Feed> feed, BatchForm form) : form_(form), feed_(std::move(feed)) {
    form_.image_field = feed_->setup().image_field;
    form_.label_field = feed_->setup().label_field;
    form_.dataset = feed_->setup().dataset;
  }
  ~LoaderFeed() {
    const Unlocked no_lock;
    feed_.reset();
  }
  LoaderFeed(const LoaderFeed&) = delete;
  LoaderFeed& operator=(const LoaderFeed&) = delete;

  std::optional<LentBatch> next(int64_t pass) {
    while (true) {
      auto answer = unlocked([&] { return feed_->next_within(pass, kPatience); });
      if (answer.has_value()) {
        if (*answer == nullptr) return std::nullopt;
        return make_lent(*std::move(answer), form_);
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }
  Feed& feed() {
    throw_if_error(feed_->check_process());
    return *feed_;
  }
  void close() {
    {
      const Unlocked no_lock;
      feed_->close();
    }
    pass_log_on();
  }

 private:
  BatchForm form_;
  std::unique_ptr<Feed> feed_;
};

nb::dict to_dict(const SourceState& state) {
  nb::dict dict;
  dict["dataset_id"] = state.dataset_id;
  dict["pipeline_id"] = state.pipeline_id;
  dict["seed"] = state.seed;
  dict["epoch"] = state.epoch;
  dict["batch_index"] = state.batch_index;
  dict["samples_consumed"] = state.samples_consumed;
  dict["chain"] = state.chain;
  dict["bad_samples"] = state.bad_samples;
  return dict;
}

template <class T>
T state_value(const nb::dict& dict, const char* key) {
  T value;
  if (!dict.contains(key) || !nb::try_cast(nb::object(dict[key]), value)) {
    throw Error(
        Status(ErrorCode::kMisuse, concat("[loader] the state has no good '", key,
                                          "'; give what state_dict() of a loader of this version answered")));
  }
  return value;
}

SourceState to_state(const nb::dict& dict) {
  SourceState state;
  state.dataset_id = state_value<std::string>(dict, "dataset_id");
  state.pipeline_id = state_value<std::string>(dict, "pipeline_id");
  state.seed = state_value<uint64_t>(dict, "seed");
  state.epoch = state_value<int64_t>(dict, "epoch");
  state.batch_index = state_value<int64_t>(dict, "batch_index");
  state.samples_consumed = state_value<int64_t>(dict, "samples_consumed");
  state.chain = state_value<uint64_t>(dict, "chain");
  state.bad_samples = state_value<std::vector<int64_t>>(dict, "bad_samples");
  return state;
}

nb::dict stats_dict(const SourceStats& stats) {
  nb::list stages;
  for (const StageStats& stage : stats.stages) {
    nb::dict row;
    row["name"] = stage.name;
    row["samples"] = stage.items;
    row["bytes"] = stage.bytes;
    row["busy_s"] = 1e-9 * static_cast<double>(stage.busy_ns);
    row["wait_input_s"] = 1e-9 * static_cast<double>(stage.wait_input_ns);
    row["wait_output_s"] = 1e-9 * static_cast<double>(stage.wait_output_ns);
    row["threads"] = stage.threads;
    stages.append(row);
  }
  nb::dict dict;
  dict["stages"] = stages;
  dict["wall_s"] = 1e-9 * static_cast<double>(stats.wall_ns);
  dict["batches"] = stats.batches;
  dict["samples"] = stats.samples;
  dict["bad_samples"] = stats.substituted;
  dict["slot_bytes"] = stats.slot_bytes;
  dict["scratch_bytes"] = stats.scratch_bytes;
  dict["bottleneck"] = stats.bottleneck;
  return dict;
}

/// (rows, advice, cores for so many samples per second): rows are of name, samples, samples per second alone, busy, waiting.
nb::tuple report(const SourceStats& stats, double samples_per_s) {
  const double waited = stats.stages.empty() || stats.wall_ns <= 0
                            ? 0
                            : static_cast<double>(stats.stages.back().wait_input_ns) /
                                  static_cast<double>(stats.wall_ns);  // the consumer stood at the stager
  const run::StageReport made = run::report_stages(stats, waited);
  nb::list rows;
  for (const run::StageRow& row : made.rows)
    rows.append(nb::make_tuple(row.name, row.items, row.alone_samples_per_s, row.busy_share, row.wait_share));
  return nb::make_tuple(rows, made.advice, made.samples_per_s, run::cores_for(stats, samples_per_s));
}

pipeline::OnBadRecord parse_on_bad(const std::string& name) {
  if (name == "substitute") return pipeline::OnBadRecord::kSubstitute;
  if (name == "drop") return pipeline::OnBadRecord::kDrop;
  if (name == "stop") return pipeline::OnBadRecord::kStop;
  throw Error(
      Status(ErrorCode::kMisuse, concat("[loader] on_bad '", name, "'; use 'substitute', 'drop' or 'stop'")));
}

/// A path as the system has it.
std::string to_path(const nb::bytes& path) {
  return {path.c_str(), path.size()};
}

/// Paths may name folders of splits; channels 0: as the pictures have them; numbers are normalised by the dataset where the
/// expression doesn't say otherwise.
Result<std::unique_ptr<Feed>> open_feed(pipeline::FeedOptions options, bool train) {
  pipeline::LoaderOptions& loader = options.loader;
  if (train) {
    DLPIPE_ASSIGN_OR_RETURN(loader.data, run::training_data(loader.data));
  } else {
    DLPIPE_ASSIGN_OR_RETURN(const run::EvaluationData found, run::evaluation_data(loader.data, ""));
    loader.data = found.directory;
  }
  if (loader.channels == 0) {
    DLPIPE_ASSIGN_OR_RETURN(const int channels, run::image_channels(loader.data));
    loader.channels = channels == 1 ? 1 : 3;
  }
  if (loader.image_dtype != DType::kU8) {
    DLPIPE_ASSIGN_OR_RETURN(loader.augment, run::training_chain(loader.augment, *loader.ops));
  }
  return Feed::open(options);
}

void open(LoaderFeed* self, const nb::bytes& data, const std::string& augment, int64_t batch, int threads,
          int slots, int slots_max, uint64_t seed, bool train, bool shuffle, bool drop_last, int64_t epochs,
          int64_t limit, int rank, int world, int channels, std::vector<std::string> fields,
          const std::string& dtype, double mixup, double cutmix, const std::string& on_bad, int64_t max_bad,
          int64_t max_pixels, int64_t memory, const nb::bytes& quarantine, const std::string& framework,
          bool channels_first) {
  pipeline::FeedOptions options;
  options.epochs_per_pass = epochs;
  options.loader = {.data = to_path(data),
                    .augment = augment,
                    .batch = batch,
                    .threads = threads,
                    .slots = slots,
                    .slots_max = slots_max,
                    .seed = seed,
                    .shuffle = shuffle,
                    .last = drop_last ? pipeline::LastBatch::kDrop : pipeline::LastBatch::kKeep,
                    .limit = limit,
                    .rank = rank,
                    .world = world,
                    .channels = channels,
                    .fields = std::move(fields),
                    .image_dtype = value_or_throw(parse_dtype(dtype)),
                    .mixup = mixup,
                    .cutmix = cutmix,
                    .on_bad = parse_on_bad(on_bad),
                    .max_bad = max_bad,
                    .max_pixels = max_pixels,
                    .memory_bytes = memory,
                    .quarantine_file = to_path(quarantine),
                    .ops = &known_ops()};
  BatchForm form;
  form.framework = parse_framework(framework);
  form.channels_first = channels_first;
  const DType image_dtype = options.loader.image_dtype;
  if (image_dtype == DType::kU8 && (mixup > 0 || cutmix > 0))
    throw Error(Status(ErrorCode::kMisuse,
                       "[loader] --mixup and --cutmix mix normalised pixels; set --dtype f32, f16 or bf16"));
  if (image_dtype == DType::kBF16 && form.framework == Framework::kNumpy)
    throw Error(Status(ErrorCode::kMisuse,
                       "[loader] NumPy has no bf16; use --dtype f16 or f32, or as_='torch' or 'jax'"));
  new (self) LoaderFeed(unlocked([&] { return open_feed(options, train); }), form);
}

void bind_lent(nb::module_& module) {
  nb::class_<LentBatch>(module, "LentBatch")
      .def("arrays", [](nb::handle self) { return field_arrays(self); })
      .def_prop_ro("epoch", [](const LentBatch& self) { return self.batch().epoch; })
      .def_prop_ro("index", [](const LentBatch& self) { return self.batch().index; })
      .def_prop_ro("last_in_epoch", [](const LentBatch& self) { return self.batch().last_in_epoch; })
      .def_prop_ro("count", [](const LentBatch& self) { return self.batch().count; })
      .def_prop_ro("chain", [](const LentBatch& self) { return self.batch().chain; })
      .def_prop_ro("sample_ids",
                   [](nb::handle self) {
                     const Batch& batch = nb::cast<const LentBatch&>(self).batch();
                     return make_constant_array(batch.sample_ids.data(),
                                                dense_form(DType::kI64, batch.count, {}), self);
                   })
      .def_prop_ro("weight",
                   [](nb::handle self) {
                     const Batch& batch = nb::cast<const LentBatch&>(self).batch();
                     return make_constant_array(batch.weight.data(), dense_form(DType::kF32, batch.count, {}),
                                                self);
                   })
      .def_prop_ro("substitutions", substitutions)
      .def("ragged", ragged, nb::arg("field"));
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_lent(module);
  nb::class_<LoaderFeed>(module, "Feed")
      .def("__init__", open, nb::kw_only(), nb::arg("data"), nb::arg("augment"), nb::arg("batch"),
           nb::arg("threads"), nb::arg("slots"), nb::arg("slots_max"), nb::arg("seed"), nb::arg("train"),
           nb::arg("shuffle"), nb::arg("drop_last"), nb::arg("epochs"), nb::arg("limit"), nb::arg("rank"),
           nb::arg("world"), nb::arg("channels"), nb::arg("fields"), nb::arg("dtype"), nb::arg("mixup"),
           nb::arg("cutmix"), nb::arg("on_bad"), nb::arg("max_bad"), nb::arg("max_pixels"), nb::arg("memory"),
           nb::arg("quarantine"), nb::arg("framework"), nb::arg("channels_first"))
      .def("begin_pass", [](LoaderFeed& self) { return unlocked([&] { return self.feed().begin_pass(); }); })
      .def("next", &LoaderFeed::next, nb::arg("of_pass"))
      .def("batches_per_pass", [](LoaderFeed& self) { return self.feed().batches_per_pass(); })
      .def("state", [](LoaderFeed& self) { return to_dict(self.feed().state()); })
      .def("seek",
           [](LoaderFeed& self, const nb::dict& dict) {
             Feed& feed = self.feed();
             const SourceState state = to_state(dict);
             unlocked([&] { return feed.seek(state); });
           })
      .def("seek_epoch",
           [](LoaderFeed& self, int64_t epoch) { unlocked([&] { return self.feed().seek_epoch(epoch); }); })
      .def("close", &LoaderFeed::close)
      .def("held", [](LoaderFeed& self) { return self.feed().held(); })
      .def("stats", [](LoaderFeed& self) { return stats_dict(self.feed().stats()); })
      .def("report",
           [](LoaderFeed& self, double samples_per_s) { return report(self.feed().stats(), samples_per_s); })
      .def_prop_ro("is_closed", [](LoaderFeed& self) { return self.feed().is_closed(); })
      .def_prop_ro("fields", [](LoaderFeed& self) { return field_names(self.feed().setup()); })
      .def_prop_ro("classes",
                   [](LoaderFeed& self) {
                     const auto classes = self.feed().setup().dataset->classes();
                     return std::vector<std::string>(classes.begin(), classes.end());
                   })
      .def_prop_ro("samples",
                   [](LoaderFeed& self) { return self.feed().setup().sampler.samples_per_epoch(); })
      .def_prop_ro("batches_per_epoch",
                   [](LoaderFeed& self) { return self.feed().setup().sampler.batches_per_epoch(); })
      .def_prop_ro("pipeline_id", [](LoaderFeed& self) { return self.feed().setup().pipeline_id; })
      .def_prop_ro("dataset_id", [](LoaderFeed& self) { return self.feed().setup().dataset->id(); })
      .def_prop_ro("threads", [](LoaderFeed& self) { return self.feed().setup().options.threads; })
      .def_prop_ro("mean_std", [](LoaderFeed& self) {
        const data::PixelStats& stats = self.feed().setup().dataset->pixel_stats();
        nb::list mean;
        nb::list std;
        for (size_t c = 0; c < static_cast<size_t>(stats.channels); ++c) {
          mean.append(stats.mean[c]);
          std.append(stats.std[c]);
        }
        return nb::make_tuple(nb::tuple(mean), nb::tuple(std));
      });
}

}  // namespace dlpipe::python
