#include "dlpipe/python/loader.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/named_values.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/sample.h"
#include "dlpipe/pipeline/feed.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/lent_batch.h"
#include "dlpipe/python/paths.h"
#include "dlpipe/python/waiting.h"
#include "dlpipe/run/input/data_paths.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/stage_report.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using pipeline::Feed;
/// How long a waiting thread goes without asking Python whether Ctrl-C was pressed.
constexpr std::chrono::milliseconds kLoaderPatience(40);

/// The fields of the schema as a loop takes them: in the order of `fields`, else the image and the label first. The pipeline
/// keeps the dataset's, so that states don't depend on it.
std::vector<size_t> field_order(const pipeline::Setup& setup) {
  std::vector<size_t> order = data::loop_order(setup.fields);
  const std::vector<std::string>& wanted = setup.options.fields;
  const auto place = [&](size_t f) { return std::find(wanted.begin(), wanted.end(), setup.schema[f].name); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  return order;
}

/// Names of a batch's fields, in the order of field_arrays.
std::vector<std::string> field_names(const pipeline::Setup& setup) {
  std::vector<std::string> names;
  for (const size_t f : field_order(setup)) names.push_back(setup.schema[f].name);
  if (setup.mixing.is_on() && setup.label_field >= 0) {
    names.emplace_back("partner_label");
    names.emplace_back("lam");
  }
  return names;
}

/// The loader. Its functions let go of the interpreter lock while they wait.
class LoaderFeed {
 public:
  LoaderFeed(std::unique_ptr<Feed> feed, BatchForm form) : form_(std::move(form)), feed_(std::move(feed)) {
    form_.image_field = feed_->setup().image_field;
    form_.label_field = feed_->setup().label_field;
    form_.order = field_order(feed_->setup());
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
      auto answer = unlocked([&] { return feed_->next_within(pass, kLoaderPatience); });
      if (answer.has_value()) {
        if (*answer == nullptr) return std::nullopt;
        tell_of_first((*answer)->batch());
        return LentBatch(*std::move(answer), form_);
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
  /// Says once that there are damaged samples, which no loop sees in its arrays.
  void tell_of_first(const Batch& batch) {
    if (batch.substitutions.empty() || has_told_.exchange(true)) return;
    const Substitution& bad = batch.substitutions.front();
    log(LogLevel::kWarning,
        concat("[loader] sample ", bad.bad_sample, " of ", printable(feed_->setup().options.data),
               " is damaged: ", printable(without_area(bad.reason)), "; ",
               bad.used_sample < 0
                   ? "its place holds zeros, and a 0 in batch.weight: weigh losses and metrics by that"
                   : "another sample stands in for it, as batch.substitutions says",
               ". Further ones aren't told of here: quarantine=FILE lists all, and on_bad=\"stop\" ends at "
               "the first"));
    pass_log_on();
  }

  BatchForm form_;
  std::unique_ptr<Feed> feed_;
  std::atomic<bool> has_told_{false};
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
    refuse("loader", "the state has no good '", key,
           "'; give what state_dict() of a loader of this version answered");
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
  if (const CacheStats& cache = stats.cache; !cache.directory.empty()) {
    nb::dict kept;
    kept["taken"] = cache.taken;
    kept["records"] = cache.records;
    kept["samples"] = cache.samples;
    kept["bytes"] = cache.bytes;
    kept["unfit"] = cache.unfit;
    kept["withdrawn"] = cache.withdrawn;
    kept["busy_s"] = 1e-9 * static_cast<double>(cache.busy_ns);
    kept["full"] = cache.is_full;
    kept["text"] = run::cache_text(cache);
    dict["cache"] = kept;
  }
  return dict;
}

/// (rows, samples per second so far, cores for so many of them): rows are of name, samples, samples per second alone, busy,
/// waiting.
nb::tuple report(const SourceStats& stats, double samples_per_s) {
  constexpr double kNoTrainer = -1;  // the package has its own words for who waited
  const run::StageReport made = run::report_stages(stats, kNoTrainer);
  nb::list rows;
  for (const run::StageRow& row : made.rows)
    rows.append(nb::make_tuple(row.name, row.items, row.alone_samples_per_s, row.busy_share, row.wait_share));
  return nb::make_tuple(rows, made.samples_per_s, run::cores_for(stats, samples_per_s));
}

pipeline::OnBadRecord parse_on_bad(const std::string& name) {
  using pipeline::OnBadRecord;
  constexpr Named<OnBadRecord> kNames[] = {
      {"substitute", OnBadRecord::kSubstitute}, {"drop", OnBadRecord::kDrop}, {"stop", OnBadRecord::kStop}};
  return value_or_throw(value_named(kNames, name, "loader", "on_bad"));
}

/// The op that normalises validation pictures of `val` as those of the training set in the folder of splits `data`; where
/// `data` is a dataset itself, by its own mean and std, which is warned of.
Result<std::string> validation_normalization(const std::string& data, const std::string& val,
                                             const augment::OpRegistry& ops) {
  const auto training = val == data ? Result<std::string>(val) : run::training_data(data);
  const std::string& known = training.ok() ? *training : val;  // a folder of splits need not have one
  DLPIPE_ASSIGN_OR_RETURN(const auto opened, data::Dataset::open(known, {}, data::Dataset::IdCheck::kLater));
  const data::PixelStats& stats = opened->pixel_stats();
  if (stats.channels == 0) return std::string();  // it has no pictures
  if (known == val) {
    log(LogLevel::kWarning,
        concat("[loader] the pictures of ", printable(val),
               " are normalised by its own mean and std; if a model ",
               "was trained on another dataset, give its loader's: mean, std = train.mean_std"));
  }
  return run::normalization_in("normalize", stats.channels, ops, {stats.channels, stats.mean, stats.std});
}

/// The dataset that a loader of `data`, which may be a folder of splits, reads.
Result<std::string> loader_data(const std::string& data, bool train) {
  if (train) return run::training_data(data);
  DLPIPE_ASSIGN_OR_RETURN(run::EvaluationData found, run::evaluation_data(data, ""));
  return std::move(found.directory);
}

/// Paths may name folders of splits; channels 0: as the pictures have them; numbers are normalised by the training dataset
/// where the expression doesn't say otherwise.
Result<std::unique_ptr<Feed>> open_feed(pipeline::FeedOptions options, bool train) {
  pipeline::LoaderOptions& loader = options.loader;
  const std::string given = loader.data;
  DLPIPE_ASSIGN_OR_RETURN(loader.data, loader_data(given, train));
  if (loader.channels == 0) {
    DLPIPE_ASSIGN_OR_RETURN(const int channels, run::image_channels(loader.data));
    loader.channels = channels == 1 ? 1 : 3;
  }
  if (loader.image_dtype != DType::kU8) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string normalised, run::training_chain(loader.augment, *loader.ops));
    if (train || normalised == loader.augment) {
      loader.augment = normalised;
    } else {
      DLPIPE_ASSIGN_OR_RETURN(const std::string op,
                              validation_normalization(given, loader.data, *loader.ops));
      loader.augment += concat(loader.augment.empty() || op.empty() ? "" : " ", op);
    }
  }
  return Feed::open(options);
}

/// What pixels become: `given`, or where it is empty what the chain says, bytes where it says nothing. Refuses what the chain says
/// otherwise, which nobody would see in the numbers. An expression that can't be read is the loader's to complain of.
DType image_dtype(const std::string& given, const std::string& expression) {
  const auto chain = augment::Chain::parse(expression, known_ops());
  const bool is_cast = chain.ok() && chain->contains("cast");
  const bool is_float = is_cast || (chain.ok() && chain->contains("normalize"));
  if (given.empty() && !is_float) return DType::kU8;
  BatchPrep prep;
  if (is_cast) throw_if_error(chain->fill_prep(prep, {3, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}));
  if (given.empty()) return prep.dtype;
  const DType dtype = value_or_throw(parse_dtype(given));
  if (is_float && (dtype == DType::kU8 || (is_cast && dtype != prep.dtype)))
    refuse("loader", "augment ends in ", is_cast ? "cast" : "normalize", ", which makes pixels ",
           dtype_name(prep.dtype), ", and --dtype is ", given, ": leave one of them out");
  return dtype;
}

/// Where batches are, and who decodes them.
void use_device(const std::string& name, bool pin_memory, pipeline::LoaderOptions& options, BatchForm& form) {
  Device* const device = value_or_throw(find_device(name));
  if (device->is_host()) {
    if (!pin_memory) return;
    options.pinned_for = form.pinned_for = value_or_throw(current_cuda_device());  // a rank's own
    if (form.framework != Framework::kTorch)
      refuse("loader", "pin_memory is for copies on PyTorch's stream; use as_='torch', or device='cuda'");
    return;
  }
  if (pin_memory)
    refuse("loader", "pin_memory is for batches of the CPU, and device '", name,
           "' copies them itself; leave pin_memory out");
  if (form.framework == Framework::kNumpy)
    refuse("loader", "NumPy has no arrays on device '", name, "'; use as_='torch', 'jax' or 'dlpack'");
  options.device = form.device = device;
  // Kernels run on the first GPU alone; for others the CPU decodes.
  if (device->index() == 0) options.coef_decode = engine::device_code(*device).decode_coefficients;
}

/// Arrays of each view are every views-th row of an array, which a field with any number of rows doesn't have.
Status check_views(const pipeline::Setup& setup, Framework framework) {
  const int64_t views = setup.options.views;
  if (views == 1) return {};
  if (framework == Framework::kDlpack)
    return misuse("loader", "views=", views,
                  " gives parts of an array, which as_='dlpack' can't; use as_='torch', 'jax' or 'numpy'");
  for (const FieldSpec& spec : setup.schema) {
    if (spec.ragged)
      return misuse("loader", "views=", views, " gives pictures, masks and fields of one size, and '",
                    printable(spec.name),
                    "' has any number of rows in each sample; leave it out of fields=[...]");
  }
  return {};
}

/// Names of the fields in which the views of a sample differ.
std::vector<std::string> moved_fields(const pipeline::Setup& setup) {
  std::vector<std::string> moved;
  for (const data::Field& field : setup.fields) {
    if (field.kind == data::FieldKind::kImage || field.kind == data::FieldKind::kMask)
      moved.push_back(field.name);
  }
  return moved;
}

/// Of int64 values.
pipeline::SampleList to_list(const std::optional<nb::bytes>& samples) {
  if (!samples) return nullptr;
  std::vector<int64_t> numbers(samples->size() / sizeof(int64_t));
  std::memcpy(numbers.data(), samples->data(), numbers.size() * sizeof(int64_t));
  return std::make_shared<const std::vector<int64_t>>(std::move(numbers));
}

void open(LoaderFeed* self, const nb::bytes& data, const std::string& augment, int64_t batch, int64_t views,
          int threads, int slots, int slots_max, uint64_t seed, bool train, bool shuffle, bool drop_last,
          int64_t epochs, const std::optional<nb::bytes>& samples, int64_t limit, int rank, int world,
          bool pad_last, int channels, std::vector<std::string> fields, int mask_fill,
          const std::string& dtype, double mixup, double cutmix, const std::string& on_bad, int64_t max_bad,
          int64_t max_pixels, int64_t memory, const nb::bytes& quarantine, const nb::bytes& cache,
          uint64_t cache_size, const std::string& framework, bool channels_first, const std::string& device,
          bool pin_memory) {
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
                    .samples = to_list(samples),
                    .limit = limit,
                    .rank = rank,
                    .world = world,
                    .pad_last = pad_last,
                    .views = views,
                    .channels = channels,
                    .fields = std::move(fields),
                    .mask_fill = mask_fill,
                    .image_dtype = image_dtype(dtype, augment),
                    .mixup = mixup,
                    .cutmix = cutmix,
                    .on_bad = parse_on_bad(on_bad),
                    .max_bad = max_bad,
                    .max_pixels = max_pixels,
                    .memory_bytes = memory,
                    .quarantine_file = to_path(quarantine),
                    .cache = to_path(cache),
                    .cache_bytes = cache_size,
                    .ops = &known_ops()};
  BatchForm form;
  form.framework = parse_framework(framework);
  form.channels_first = channels_first;
  use_device(device, pin_memory, options.loader, form);
  const DType pixels = options.loader.image_dtype;
  if (pixels == DType::kU8 && (mixup > 0 || cutmix > 0))
    refuse("loader", "--mixup and --cutmix mix normalised pixels; set --dtype f32, f16 or bf16");
  if (pixels == DType::kBF16 && form.framework == Framework::kNumpy)
    refuse("loader", "NumPy has no bf16; use --dtype f16 or f32, or as_='torch' or 'jax'");
  auto feed = unlocked([&]() -> Result<std::unique_ptr<Feed>> {
    DLPIPE_ASSIGN_OR_RETURN(auto opened, open_feed(options, train));
    DLPIPE_RETURN_IF_ERROR(check_views(opened->setup(), form.framework));
    return opened;
  });
  new (self) LoaderFeed(std::move(feed), form);
}

/// What `read` answers of the feed. Without the interpreter lock: the feed may be moving to another place, and wait for a worker
/// whose augmentation is in Python.
template <class Answer>
Answer read_feed(LoaderFeed& self, Answer (Feed::*read)() const) {
  const Feed& feed = self.feed();
  const Unlocked no_lock;
  return (feed.*read)();
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_lent_batch(module);
  module.def(
      "loader_data",
      [](const nb::bytes& data, bool train) {
        const std::string directory =
            unlocked([&, given = to_path(data)] { return loader_data(given, train); });
        return nb::bytes(directory.data(), directory.size());
      },
      nb::arg("data"), nb::arg("train"));
  nb::class_<LoaderFeed>(module, "Feed")
      .def("__init__", open, nb::kw_only(), nb::arg("data"), nb::arg("augment"), nb::arg("batch"),
           nb::arg("views"), nb::arg("threads"), nb::arg("slots"), nb::arg("slots_max"), nb::arg("seed"),
           nb::arg("train"), nb::arg("shuffle"), nb::arg("drop_last"), nb::arg("epochs"),
           nb::arg("samples").none(), nb::arg("limit"), nb::arg("rank"), nb::arg("world"),
           nb::arg("pad_last"), nb::arg("channels"), nb::arg("fields"), nb::arg("mask_fill"),
           nb::arg("dtype"), nb::arg("mixup"), nb::arg("cutmix"), nb::arg("on_bad"), nb::arg("max_bad"),
           nb::arg("max_pixels"), nb::arg("memory"), nb::arg("quarantine"), nb::arg("cache"),
           nb::arg("cache_size"), nb::arg("framework"), nb::arg("channels_first"), nb::arg("device"),
           nb::arg("pin_memory"))
      .def("begin_pass", [](LoaderFeed& self) { return unlocked([&] { return self.feed().begin_pass(); }); })
      .def("next", &LoaderFeed::next, nb::arg("of_pass"))
      .def("batches_per_pass", [](LoaderFeed& self) { return self.feed().batches_per_pass(); })
      .def("state", [](LoaderFeed& self) { return to_dict(read_feed(self, &Feed::state)); })
      .def("seek",
           [](LoaderFeed& self, const nb::dict& dict) {
             Feed& feed = self.feed();
             const SourceState state = to_state(dict);
             unlocked([&] { return feed.seek(state); });
           })
      .def("seek_epoch",
           [](LoaderFeed& self, int64_t epoch) { unlocked([&] { return self.feed().seek_epoch(epoch); }); })
      .def("close", &LoaderFeed::close)
      .def("held", [](LoaderFeed& self) { return read_feed(self, &Feed::held); })
      .def("stats", [](LoaderFeed& self) { return stats_dict(read_feed(self, &Feed::stats)); })
      .def("report",
           [](LoaderFeed& self, double samples_per_s) {
             return report(read_feed(self, &Feed::stats), samples_per_s);
           })
      .def_prop_ro("is_closed", [](LoaderFeed& self) { return read_feed(self, &Feed::is_closed); })
      .def_prop_ro("fields", [](LoaderFeed& self) { return to_texts(field_names(self.feed().setup())); })
      .def_prop_ro("moved", [](LoaderFeed& self) { return to_texts(moved_fields(self.feed().setup())); })
      .def_prop_ro("classes",
                   [](LoaderFeed& self) { return to_texts(self.feed().setup().dataset->classes()); })
      .def_prop_ro("samples",
                   [](LoaderFeed& self) { return self.feed().setup().sampler.samples_per_epoch(); })
      .def_prop_ro("batches_per_epoch",
                   [](LoaderFeed& self) { return self.feed().setup().sampler.batches_per_epoch(); })
      .def_prop_ro("directory",
                   [](LoaderFeed& self) {
                     const std::string& path = self.feed().setup().options.data;
                     return nb::bytes(path.data(), path.size());
                   })
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
