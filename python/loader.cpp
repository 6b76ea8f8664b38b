// The loader: compiled functions as augmentations, batches as arrays that share the pipeline's memory, and the feed that
// returns them. Long calls release the interpreter lock.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "augment/function_op.h"
#include "base/messages.h"
#include "base/names.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "dlpipe/log.h"
#include "engine/core/device_code.h"
#include "io/data/bus_error.h"
#include "io/data/sample.h"
#include "pipeline/plan/setup.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"
#include "run/input/dataset.h"
#include "run/record/report.h"

namespace nb = nanobind;

namespace dlpipe::python {

// ---- augmentations

namespace {

// A loader keeps the registry that it was opened with: adding an op creates a new registry.
const augment::OpRegistry* registry = nullptr;

void add_augmentation(const std::string& name, uintptr_t address, const std::string& code,
                      const std::vector<std::pair<std::string, double>>& parameters,
                      const std::string& help) {
  auto extended = std::make_unique<augment::OpRegistry>(known_ops());
  throw_if_error(augment::add_function_op({.name = name,
                                           .help = help,
                                           .function = reinterpret_cast<augment::PixelFunction>(address),
                                           .code = code,
                                           .parameters = parameters},
                                          *extended));
  registry = extended.release();
}

/// The (height, width) after applying a chain to such an image; 0 if unknown. Throws if the chain is invalid.
std::pair<int, int> augment_size(const std::string& expression, std::pair<int, int> image) {
  const augment::Chain chain = value_or_throw(augment::Chain::parse(expression, known_ops()));
  const auto size = chain.output({.width = image.second, .height = image.first});
  return size.ok() ? std::pair(size->height, size->width) : std::pair(0, 0);
}

}  // namespace

const augment::OpRegistry& known_ops() {
  return registry != nullptr ? *registry : augment::OpRegistry::builtin();
}

namespace {

// ---- a batch

/// The form of all batches of a loader.
struct BatchForm {
  Framework framework = Framework::kNumpy;
  bool channels_first = false;
  int image_field = -1;
  int label_field = -1;
  std::vector<size_t> order;  // of the batch's fields in the tuple of arrays
  std::shared_ptr<const data::Dataset> dataset;
  Device* device = nullptr;      // where batches are; null: the CPU
  Device* pinned_for = nullptr;  // page-locked for copies to this one
};

/// A batch borrowed from the pipeline. Arrays over its memory keep it alive; arrays with few bytes per sample are copies.
class LentBatch {
 public:
  LentBatch(std::shared_ptr<pipeline::Feed::Lent> lent, const BatchForm& form);

  const Batch& batch() const { return lent_->batch(); }
  const BatchForm& form() const { return form_; }
  const std::vector<int64_t>& partner_labels() const { return partner_labels_; }
  const std::vector<float>& own_weights() const { return own_weights_; }
  /// Orders the batch before later work of the consumer's `stream` (a cudaStream_t as a number), and that work before the next use of
  /// the batch's memory. `device`: the number of the stream's GPU; -1: the batch's own.
  void read_on(uintptr_t stream, int device = -1) const;
  /// Keeps the batch.
  Memory memory() const { return lent_; }

 private:
  std::shared_ptr<pipeline::Feed::Lent> lent_;
  BatchForm form_;
  // if samples are mixed, [count] each: the partners' labels, and the weights of the samples' own labels
  std::vector<int64_t> partner_labels_;
  std::vector<float> own_weights_;
};

LentBatch::LentBatch(std::shared_ptr<pipeline::Feed::Lent> lent, const BatchForm& form)
    : lent_(std::move(lent)), form_(form) {
  const Batch& made = batch();
  if (made.mixed.empty() || form.label_field < 0) return;
  const auto label_of = [&](int64_t i) {  // as in the batch, which may be on a device
    return value_or_throw(form_.dataset->header(made.sample_ids[static_cast<size_t>(i)])).label;
  };
  for (int64_t i = 0; i < made.count; ++i) {
    const SampleMix& mix = made.mixed[static_cast<size_t>(i)];
    partner_labels_.push_back(label_of(mix.partner < 0 ? i : mix.partner));
    own_weights_.push_back(mix.partner < 0 ? 1.0f : mix.lambda);
  }
}

void LentBatch::read_on(uintptr_t stream, int device) const {
  Device* reader = form_.device != nullptr ? form_.device : form_.pinned_for;
  if (reader == nullptr) return;
  if (device >= 0) reader = value_or_throw(cuda_device(device));  // each device has its own stream 0
  auto borrowed = value_or_throw(reader->borrow_stream(reinterpret_cast<void*>(stream)));
  throw_if_error(lent_->read_on(std::move(borrowed), reader));
}

/// An array of the consumer's framework. `memory` keeps the data alive, which is the batch's or a copy.
nb::object hand_out(std::byte* data, const ArrayForm& form, const LentBatch& batch, Memory memory) {
  const BatchForm& wanted = batch.form();
  if (wanted.device == nullptr) return make_array(wanted.framework, data, form, std::move(memory));
  const auto read_on = [batch](int64_t stream) { batch.read_on(static_cast<uintptr_t>(stream)); };
  nb::object array = make_dlpack(data, form, std::move(memory), wanted.device, read_on);
  const PythonCall call;
  if (wanted.framework == Framework::kTorch) return nb::module_::import_("torch").attr("from_dlpack")(array);
  if (wanted.framework == Framework::kJax)
    return nb::module_::import_("jax.dlpack").attr("from_dlpack")(array);
  return array;
}

/// The maximum bytes per sample of fields that loops collect, such as labels and numbers. These are copied, so that keeping them
/// doesn't keep images alive.
constexpr size_t kCopiedBytes = 64;

struct Copy {
  std::byte* data;
  Memory memory;
};

template <class T>
Copy copy_of(std::span<const T> values) {
  constexpr std::align_val_t kAlignment{64};  // JAX copies memory with a smaller alignment again
  const std::span<const std::byte> bytes = std::as_bytes(values);
  auto* const data = static_cast<std::byte*>(::operator new(bytes.size(), kAlignment));
  std::copy(bytes.begin(), bytes.end(), data);
  return {data, Memory(data, [](const void* p) { ::operator delete(const_cast<void*>(p), kAlignment); })};
}

nb::tuple field_arrays(const LentBatch& self) {
  const BatchForm& wanted = self.form();
  const int64_t count = self.batch().count;
  const auto on_host = [&](void* data, const ArrayForm& form, const Memory& memory) {
    return make_array(wanted.framework == Framework::kDlpack ? Framework::kNumpy : wanted.framework, data,
                      form, memory);
  };
  nb::list arrays;
  for (const size_t index : wanted.order) {
    const BatchField& field = self.batch().fields[index];
    const bool is_image = static_cast<int>(index) == wanted.image_field;
    if (field.spec->ragged) {
      const auto used = field.offsets.first(static_cast<size_t>(count) + 1);
      const ArrayForm rows = dense_form(field.spec->dtype, used.back(), field.spec->shape);
      arrays.append(nb::make_tuple(
          on_host(field.data, rows, self.memory()),
          on_host(const_cast<int64_t*>(used.data()), dense_form(DType::kI64, count + 1, {}), self.memory())));
      continue;
    }
    // One value per sample is [batch], as PyTorch collates it.
    const bool is_single = field.spec->shape.rank() == 1 && field.spec->shape[0] == 1;
    ArrayForm form = dense_form(field.spec->dtype, count, is_single ? Shape() : field.spec->shape);
    if (is_image && wanted.channels_first) form = channels_first(form);
    const size_t bytes = field.spec->sample_bytes();
    const bool is_copied =
        !is_image && bytes <= kCopiedBytes && wanted.device == nullptr && wanted.pinned_for == nullptr;
    if (is_copied) {
      const Copy copy = copy_of(std::span<const std::byte>(field.data, static_cast<size_t>(count) * bytes));
      arrays.append(hand_out(copy.data, form, self, copy.memory));
    } else {
      arrays.append(hand_out(field.data, form, self, self.memory()));
    }
  }
  if (!self.own_weights().empty()) {
    const Copy labels = copy_of(std::span(self.partner_labels()));
    const Copy weights = copy_of(std::span(self.own_weights()));
    arrays.append(on_host(labels.data, dense_form(DType::kI64, count, {}), labels.memory));
    arrays.append(on_host(weights.data, dense_form(DType::kF32, count, {}), weights.memory));
  }
  return nb::tuple(arrays);
}

/// [count], one value per sample: a tensor of PyTorch, which has no read-only ones, or a read-only array of NumPy.
template <class T>
nb::any per_sample(const LentBatch& self, std::span<const T> values, DType dtype) {
  const int64_t count = self.batch().count;
  const Copy copy = copy_of(values.first(static_cast<size_t>(count)));
  const ArrayForm form = dense_form(dtype, count, {});
  if (self.form().framework == Framework::kTorch)
    return make_array(Framework::kTorch, copy.data, form, copy.memory);
  return make_constant_array(copy.data, form, copy.memory);
}

/// (bytes, offsets) of a field without a fixed size, as stored in the dataset.
nb::tuple ragged(const LentBatch& self, const std::string& field) {
  const Batch& batch = self.batch();
  data::RaggedField read = unlocked([&] {
    return data::read_ragged_field(*self.form().dataset,
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

// ---- the feed

using pipeline::Feed;
/// How often a waiting thread asks Python whether Ctrl-C was pressed.
constexpr std::chrono::milliseconds kLoaderPatience(40);

/// The schema's fields in the order of batches: that of `fields`, else the image, the label, then the others. The pipeline
/// keeps the dataset's order, so that states don't depend on this one.
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

/// The loader. Its functions release the interpreter lock while they wait.
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
        warn_of_first((*answer)->batch());
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
  /// Warns once about corrupt samples, which a loop can't see in its arrays.
  void warn_of_first(const Batch& batch) {
    if (batch.substitutions.empty() || has_warned_.exchange(true)) return;
    const Substitution& bad = batch.substitutions.front();
    log(LogLevel::kWarning,
        concat("[loader] sample ", bad.bad_sample, " of ", printable(feed_->setup().options.data),
               " is corrupt: ", printable(without_area(bad.reason)), "; ",
               bad.used_sample < 0
                   ? "its place holds zeros and its batch.weight is 0: weight losses and metrics by that"
                   : "another sample replaces it, see batch.substitutions",
               ". Further corrupt samples are not reported: quarantine=FILE lists all, and on_bad=\"stop\" "
               "stops "
               "at the first"));
    pass_log_on();
  }

  BatchForm form_;
  std::unique_ptr<Feed> feed_;
  std::atomic<bool> has_warned_{false};
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
    refuse("loader", "the state has no valid '", key,
           "'; give what state_dict() of a loader of this version returned");
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

/// (rows, samples per second so far, cores for the given rate). A row is (name, samples, samples per second alone, busy,
/// waiting).
nb::tuple report(const SourceStats& stats, double samples_per_s) {
  constexpr double kNoTrainer = -1;  // the package itself words which side waited
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

/// The op that normalises validation images of `val` like those of the training set in the folder of splits `data`. If `data` is
/// a dataset itself, uses its own mean and std and logs a warning.
Result<std::string> validation_normalization(const std::string& data, const std::string& val,
                                             const augment::OpRegistry& ops) {
  const auto training = val == data ? Result<std::string>(val) : run::training_data(data);
  const std::string& known = training.ok() ? *training : val;  // a folder of splits may lack a training set
  DLPIPE_ASSIGN_OR_RETURN(const auto opened, data::Dataset::open(known, {}, data::Dataset::IdCheck::kLater));
  const data::PixelStats& stats = opened->pixel_stats();
  if (stats.channels == 0) return std::string();  // it has no images
  if (known == val) {
    log(LogLevel::kWarning,
        concat("[loader] the images of ", printable(val),
               " are normalised by its own mean and std; if the model ",
               "was trained on another dataset, give that loader's: mean, std = train.mean_std"));
  }
  return run::normalization_in("normalize", stats.channels, ops, {stats.channels, stats.mean, stats.std});
}

/// The dataset that a loader of `data` reads; `data` may be a folder of splits.
Result<std::string> loader_data(const std::string& data, bool train) {
  if (train) return run::training_data(data);
  DLPIPE_ASSIGN_OR_RETURN(run::EvaluationData found, run::evaluation_data(data, ""));
  return std::move(found.directory);
}

/// Paths may name folders of splits. channels 0: as many as the images have. Pixels are normalised by the training dataset's
/// statistics unless the expression says otherwise.
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

/// The dtype of pixels: `given`, or if that is empty the chain's, or u8 if the chain has none. Refuses a conflict with the chain,
/// which would not be visible in the numbers. The loader reports an expression that can't be parsed.
DType image_dtype(const std::string& given, const std::string& expression) {
  const auto chain = augment::Chain::parse(expression, known_ops());
  const bool is_cast = chain.ok() && chain->contains("cast");
  const bool is_float = is_cast || (chain.ok() && chain->contains("normalize"));
  if (given.empty() && !is_float) return DType::kU8;
  BatchPrep prep;
  if (is_cast) throw_if_error(chain->fill_prep(prep, {3, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}));
  if (given.empty()) return prep.dtype;
  const std::vector<std::string> known = {"u8", "f32", "f16", "bf16"};
  if (std::ranges::find(known, given) == known.end())
    refuse("loader", "--dtype can't be '", given, "'", suggestion(given, known));
  const DType dtype = value_or_throw(parse_dtype(given));
  if (is_float && (dtype == DType::kU8 || (is_cast && dtype != prep.dtype)))
    refuse("loader", "augment ends in ", is_cast ? "cast" : "normalize", ", which makes pixels ",
           dtype_name(prep.dtype), ", but --dtype is ", given, "; leave one of them out");
  return dtype;
}

/// Sets the device of batches, and the device that decodes them.
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
    refuse("loader", "pin_memory is for CPU batches, but with device '", name,
           "' the loader copies them; leave pin_memory out");
  if (form.framework == Framework::kNumpy)
    refuse("loader", "NumPy has no arrays on device '", name, "'; use as_='torch', 'jax' or 'dlpack'");
  options.device = form.device = device;
  // Kernels run on the first GPU only; for others the CPU decodes.
  if (device->index() == 0) options.coef_decode = engine::device_code(*device).decode_coefficients;
}

/// The array of a view is every views-th row of an array. Variable-length fields have no such rows.
Status check_views(const pipeline::Setup& setup, Framework framework) {
  const int64_t views = setup.options.views;
  if (views == 1) return {};
  if (framework == Framework::kDlpack)
    return misuse(
        "loader", "views=", views,
        " needs slices of an array, which as_='dlpack' can't make; use as_='torch', 'jax' or 'numpy'");
  for (const FieldSpec& spec : setup.schema) {
    if (spec.ragged)
      return misuse("loader", "views=", views, " supports images, masks and fields of fixed size, but '",
                    printable(spec.name), "' has a variable length; leave it out of fields=[...]");
  }
  return {};
}

/// Names of the fields that differ between the views of a sample.
std::vector<std::string> moved_fields(const pipeline::Setup& setup) {
  std::vector<std::string> moved;
  for (const data::Field& field : setup.fields) {
    if (field.kind == data::FieldKind::kImage || field.kind == data::FieldKind::kMask)
      moved.push_back(field.name);
  }
  return moved;
}

/// A vector of the int64 values in `bytes`.
pipeline::SampleList to_list(const std::optional<nb::bytes>& samples) {
  if (!samples) return nullptr;
  std::vector<int64_t> numbers(samples->size() / sizeof(int64_t));
  std::memcpy(numbers.data(), samples->data(), numbers.size() * sizeof(int64_t));
  return std::make_shared<const std::vector<int64_t>>(std::move(numbers));
}

void open(LoaderFeed* self, const nb::bytes& data, const std::string& augment, int64_t batch, int64_t views,
          int threads, int slots, int slots_max, uint64_t seed, bool train, bool shuffle,
          const std::string& sampler, bool drop_last, int64_t epochs, const std::optional<nb::bytes>& samples,
          int64_t limit, int rank, int world, bool pad_last, int channels, std::vector<std::string> fields,
          int mask_fill, const std::string& dtype, double mixup, double cutmix, const std::string& on_bad,
          int64_t max_bad, int64_t max_pixels, int64_t memory, const nb::bytes& quarantine,
          const nb::bytes& cache, uint64_t cache_size, const std::string& framework, bool channels_first,
          const std::string& device, bool pin_memory) {
  data::explain_bus_errors();
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
                    .sampler = sampler,
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

/// The result of `read` on the feed. Runs without the interpreter lock: the feed may be seeking, and may wait for a worker
/// whose augmentation is in Python.
template <class Answer>
Answer read_feed(LoaderFeed& self, Answer (Feed::*read)() const) {
  const Feed& feed = self.feed();
  const Unlocked no_lock;
  return (feed.*read)();
}

}  // namespace

void bind_loader(nb::module_& module) {
  module.def("add_augmentation", add_augmentation);
  module.def("augment_size", augment_size);
  nb::class_<LentBatch>(module, "LentBatch")
      .def("arrays", field_arrays)
      .def_prop_ro("epoch", [](const LentBatch& self) { return self.batch().epoch; })
      .def_prop_ro("index", [](const LentBatch& self) { return self.batch().index; })
      .def_prop_ro("last_in_epoch", [](const LentBatch& self) { return self.batch().last_in_epoch; })
      .def_prop_ro("count", [](const LentBatch& self) { return self.batch().count; })
      .def_prop_ro("chain", [](const LentBatch& self) { return self.batch().chain; })
      .def_prop_ro("sample_ids",
                   [](const LentBatch& self) {
                     return per_sample<int64_t>(self, self.batch().sample_ids, DType::kI64);
                   })
      .def_prop_ro(
          "weight",
          [](const LentBatch& self) { return per_sample<float>(self, self.batch().weight, DType::kF32); })
      .def_prop_ro("substitutions", substitutions)
      .def("read_on", &LentBatch::read_on, nb::arg("stream"), nb::arg("device") = -1)
      .def("ragged", ragged, nb::arg("field"));
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
           nb::arg("train"), nb::arg("shuffle"), nb::arg("sampler"), nb::arg("drop_last"), nb::arg("epochs"),
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
      .def_prop_ro(
          "chosen",
          [](LoaderFeed& self) -> nb::object {
            const pipeline::Subset& subset = self.feed().setup().sampler.options().subset;
            if (subset.is_all()) return nb::none();
            nb::list numbers;
            for (int64_t i = 0; i < subset.count(); ++i) numbers.append(subset.sample(i));
            return numbers;
          },
          nb::sig("def chosen(self, /) -> list[int] | None"))
      .def_prop_ro("pipeline_id", [](LoaderFeed& self) { return self.feed().setup().pipeline_id; })
      .def_prop_ro("dataset_id", [](LoaderFeed& self) { return self.feed().setup().dataset->id(); })
      .def_prop_ro("threads", [](LoaderFeed& self) { return self.feed().setup().options.threads; })
      .def_prop_ro("mean_std", [](LoaderFeed& self) {
        const pipeline::Setup& setup = self.feed().setup();
        const data::PixelStats stats = setup.dataset->pixel_stats().of_channels(setup.options.channels);
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
