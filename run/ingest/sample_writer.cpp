// SampleWriter passes samples of a program through the workers of an ingest to DST.partial. Opening and resuming come first, then
// processing samples, labels, commits and the end.

#include "run/ingest/sample_writer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "io/data/dataset_writer.h"
#include "io/data/partial_directory.h"
#include "io/data/schema.h"
#include "io/data/verify.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/ingest/freeze.h"
#include "run/ingest/image_worker.h"
#include "run/ingest/options.h"
#include "run/ingest/publish.h"

namespace dlpipe::ingest {

using formats::Json;

// What a SampleWriter needs besides its environments to resume after an interruption. It is in DST.partial/ingest.list, which is
// rewritten before a commit if it has changed. Value types.

/// How labels become numbers. The values are stored in files.
enum class Labels : uint8_t { kUnknown, kFixed, kNames, kNumbers };

struct SampleWriterState {
  std::string options;  // canonical_options
  std::string source;
  data::Schema schema;  // with the classes so far; records_per_value 0: not decided yet
  Labels labels = Labels::kUnknown;
  std::vector<std::string> splits;  // that samples were written to, in the order of their first samples
  int64_t total = -1;               // of all samples; -1: finish() was not called

  friend bool operator==(const SampleWriterState& a, const SampleWriterState& b) {
    return a.options == b.options && a.schema.classes == b.schema.classes && a.labels == b.labels &&
           a.schema.records_per_value == b.schema.records_per_value && a.splits == b.splits &&
           a.total == b.total;
  }
};

namespace {

Status save_state(const SampleWriterState& state, const std::string& file) {
  data::DatasetInfo info;
  info.schema = state.schema;
  info.class_counts.resize(state.schema.classes.size());
  const Json json = Json::object({{"options", state.options},
                                  {"source", state.source},
                                  {"schema", data::to_json(info)},
                                  {"labels", static_cast<int64_t>(state.labels)},
                                  {"splits", Json(Json::Array(state.splits.begin(), state.splits.end()))},
                                  {"total", state.total}});
  return formats::write_file(file, json.dump(2) + "\n");
}

/// kCorrupt if the file is incomplete.
Result<SampleWriterState> load_state(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const Json json, formats::read_json(file));
  SampleWriterState state;
  DLPIPE_ASSIGN_OR_RETURN(state.options, formats::require_string(json, "options", file));
  DLPIPE_ASSIGN_OR_RETURN(state.source, formats::require_string(json, "source", file));
  DLPIPE_ASSIGN_OR_RETURN(const std::string schema, formats::require_string(json, "schema", file));
  DLPIPE_ASSIGN_OR_RETURN(data::DatasetInfo info, data::parse_dataset_info(schema));
  state.schema = std::move(info.schema);
  DLPIPE_ASSIGN_OR_RETURN(const int64_t labels, formats::require_int(json, "labels", file));
  if (labels < 0 || labels > static_cast<int64_t>(Labels::kNumbers))
    return Status(ErrorCode::kCorrupt,
                  concat("[writer] ", file, " is malformed; remove its directory and start over"));
  state.labels = static_cast<Labels>(labels);
  for (const Json& split : json["splits"].items()) state.splits.push_back(split.as_string());
  DLPIPE_ASSIGN_OR_RETURN(state.total, formats::require_int(json, "total", file));
  return state;
}

/// The fields' names and kinds, such as "image (image), label (label)", for comparing schemas and for messages.
std::string fields_text(const std::vector<data::Field>& fields) {
  std::string text;
  for (const data::Field& field : fields) {
    text += concat(text.empty() ? "" : ", ", field.name, " (", data::field_kind_name(field.kind));
    if (field.kind == data::FieldKind::kTensor) text += concat(" ", dtype_name(field.dtype));
    if (field.kind == data::FieldKind::kTensor || field.kind == data::FieldKind::kPoints)
      text += field.shape.to_string();
    if (!field.of.empty()) text += concat(" of ", field.of);
    text += ")";
  }
  return text;
}

}  // namespace

struct SampleWriter::Impl {
  static constexpr uint64_t kAllOfIt = std::numeric_limits<uint64_t>::max();

  /// One sample that is not a record yet.
  struct Item {
    uint64_t number = 0;
    size_t split = 0;
    int64_t label = -1;
    std::vector<std::vector<std::byte>> values;
    Status problem = {};
  };

  /// Samples that the workers get together, and the positions of commits among them.
  struct Portion {
    struct Border {
      size_t items = 0;       // that come before the commit
      uint64_t position = 0;  // of the next sample
    };
    std::vector<Item> items;
    std::vector<Border> borders;
    uint64_t bytes = 0;
  };

  struct Split {
    std::string name;
    uint64_t done = 0;                            // samples below this number are in its environment
    std::unique_ptr<data::DatasetWriter> writer;  // null: it has no sample in this call yet
  };

  Impl(const SampleWriterOptions& given, Paths paths_in, data::PartialDirectory partial_in)
      : options(given), paths(std::move(paths_in)), partial(std::move(partial_in)) {}

  SampleWriterOptions options;
  Paths paths;
  data::PartialDirectory partial;
  SampleWriterState state;
  SampleWriterState saved;
  bool is_saved = false;
  bool is_sealed = false;  // provenance is written; only the rename is missing
  bool is_over = false;
  Status failure;
  std::optional<size_t> image_field, label_field, path_field, fold_field;

  std::vector<Split> splits;
  uint64_t next = 0;  // number of the next sample
  uint64_t bytes_since_border = 0;
  int64_t samples_since_border = 0;
  Portion filling;
  Portion working;
  std::vector<std::unique_ptr<ImageWorker>> image_workers;
  std::unique_ptr<OrderedWorkers> workers;  // of `working`
  WorkCounters counters;
  data::StoredImages images;  // of this writer, by the numbers of state.splits
  int64_t write_ns = 0;
  int64_t begin_ns = now_ns();
  bool is_resumed = false;

  // Opening.
  Status begin();
  Status resume();
  Status resume_sealed();
  Status refuse_difference(const std::string& difference) const;

  // Labels.
  Result<int64_t> number_of(const NewSample::Label& label);
  /// Returns the number of the sample's label. Numbers of its other labels become the values of their fields. Checks all values.
  Result<int64_t> number_labels(NewSample& sample);

  // Accepting samples.
  Status check(const NewSample& sample) const;
  size_t split_of(const std::string& name);
  Status add(NewSample&& sample);
  void note_border(uint64_t bytes);
  Status turn();
  void start_workers();
  Status drain();
  void decide_packing(const std::vector<OrderedWorkers::Outcome>& outcomes);
  std::string name_of(const Item& item) const;
  Status take(const Item& item, const OrderedWorkers::Outcome& outcome);

  // The splits' environments.
  /// Also records the split in the state: a saved state does not name splits whose samples come after its commit.
  Status open_writer(Split& split);
  Status commit(uint64_t position);
  Status save();
  Status finish_splits();
  Result<IngestReport> publish();
};

namespace {

namespace fs = std::filesystem;
using data::Field;
using data::FieldKind;

std::vector<Field> default_fields() {
  return {{"image", FieldKind::kImage, DType::kU8, {}},
          {"label", FieldKind::kLabel, DType::kI64, {}},
          {"path", FieldKind::kBytes, DType::kU8, {}}};
}

Status check_fields(const std::vector<Field>& fields) {
  std::set<std::string> names;
  const Field *image = nullptr, *label = nullptr;
  int masks = 0;
  for (const Field& field : fields) {
    if (field.name.empty() || !names.insert(field.name).second)
      return misuse("writer", "a field's name is empty or used twice: '", printable(field.name), "'");
    if (field.kind == FieldKind::kImage || field.kind == FieldKind::kLabel) {
      const Field*& first = field.kind == FieldKind::kImage ? image : label;
      if (first != nullptr)
        return misuse("writer", "'", printable(first->name), "' and '", printable(field.name), "' are both ",
                      data::field_kind_name(field.kind),
                      "s, but a dataset has at most one; leave one out, or store it as ",
                      first == image ? "bytes or a mask" : "a number or text");
      first = &field;
    }
    const bool known = field.kind == FieldKind::kImage || field.kind == FieldKind::kLabel ||
                       field.kind == FieldKind::kBytes || field.kind == FieldKind::kMask ||
                       data::fixed_field_bytes(field).has_value() || data::field_row_bytes(field).has_value();
    if (!known)
      return misuse("writer", "field '", printable(field.name),
                    "' has a kind that can't be written: ", data::field_kind_name(field.kind),
                    "; use image, label, bytes, labels, boxes, points, mask or a tensor");
    masks += field.kind == FieldKind::kMask ? 1 : 0;
  }
  if (masks > 0 && image == nullptr)
    return misuse("writer", "a mask belongs to an image, but no field is an image; add one");
  if (const Status forms = data::check_forms(fields); !forms.ok()) return misuse("writer", forms.message());
  if (fields.size() > data::kMostFields)
    return misuse("writer", fields.size(), " fields; a dataset has at most ", data::kMostFields);
  return {};
}

Status check_classes(const std::vector<std::string>& classes) {
  std::set<std::string_view> seen;
  for (const std::string& name : classes) {
    if (name.empty()) return misuse("writer", "a class has an empty name; name each class");
    if (!seen.insert(name).second)
      return misuse("writer", "two classes are called '", printable(name), "'; use different names");
  }
  return {};
}

std::optional<size_t> find_kind(const std::vector<Field>& fields, FieldKind kind) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind == kind) return i;
  }
  return std::nullopt;
}

}  // namespace

Status SampleWriter::Impl::begin() {
  if (options.fields.empty()) options.fields = default_fields();
  DLPIPE_RETURN_IF_ERROR(check_fields(options.fields));
  image_field = find_kind(options.fields, FieldKind::kImage);
  label_field = find_kind(options.fields, FieldKind::kLabel);
  for (size_t i = 0; i < options.fields.size(); ++i) {
    if (options.fields[i].name == "path" && options.fields[i].kind == FieldKind::kBytes) path_field = i;
    if (options.fields[i].name == data::kFoldField) fold_field = i;
  }
  state.options = canonical_options(options.ingest);
  state.source = options.source;
  state.schema.fields = options.fields;
  state.schema.classes = options.classes;
  state.schema.zstd = options.ingest.zstd;
  state.schema.records_per_value = 0;
  state.labels = options.classes.empty() ? Labels::kUnknown : Labels::kFixed;
  if (!partial.was_there()) return {};
  std::error_code ignored;
  const bool is_begun = fs::exists(paths.list, ignored) || fs::exists(paths.provenance, ignored);
  if (!is_begun || options.interrupted == Interrupted::kRestart) return partial.clear();
  return resume();
}

Status SampleWriter::Impl::refuse_difference(const std::string& difference) const {
  if (difference.empty()) return {};
  return misuse("writer", paths.partial, " was started with other options: ", difference,
                "; use those, or start over with interrupted 'restart'");
}

/// Only the rename is missing: everything else is in the provenance and in the finished datasets.
Status SampleWriter::Impl::resume_sealed() {
  DLPIPE_ASSIGN_OR_RETURN(const Provenance provenance, read_provenance(paths.provenance));
  std::string difference = first_difference(provenance.options, state.options);
  for (const std::string& name : provenance.splits) {
    DLPIPE_ASSIGN_OR_RETURN(const auto dataset, data::Dataset::open(paths.split(paths.partial, name)));
    const std::string was = fields_text({dataset->fields().begin(), dataset->fields().end()});
    const std::string is = fields_text(state.schema.fields);
    if (difference.empty() && was != is) difference = concat("fields ", was, ", now ", is);
    const bool same_table =
        options.classes.empty() || std::ranges::equal(options.classes, dataset->classes());
    if (difference.empty() && !same_table) difference = "classes";
  }
  DLPIPE_RETURN_IF_ERROR(refuse_difference(difference));
  is_sealed = true;
  state.total = provenance.files;
  state.options = provenance.options;
  state.splits = provenance.splits;
  next = static_cast<uint64_t>(state.total);
  return {};
}

Status SampleWriter::Impl::resume() {
  if (options.interrupted == Interrupted::kRefuse)
    return misuse("writer", paths.partial,
                  " contains the samples that an interrupted writer has committed; open it with interrupted "
                  "'resume' to continue "
                  "after them, or 'restart' to remove it and start over");
  is_resumed = true;
  std::error_code ignored;
  if (!fs::exists(paths.list, ignored)) return resume_sealed();
  DLPIPE_ASSIGN_OR_RETURN(SampleWriterState former, load_state(paths.list));
  std::string difference = first_difference(former.options, state.options);
  const std::string was = fields_text(former.schema.fields), is = fields_text(state.schema.fields);
  if (difference.empty() && was != is) difference = concat("fields ", was, ", now ", is);
  const bool same_table =
      former.labels == Labels::kFixed ? former.schema.classes == options.classes : options.classes.empty();
  if (difference.empty() && !same_table) difference = "classes";
  if (difference.empty() && former.source != state.source)
    difference = concat("samples of ", printable(former.source), ", now ", printable(state.source));
  DLPIPE_RETURN_IF_ERROR(refuse_difference(difference));
  state = saved = std::move(former);
  is_saved = true;
  next = kAllOfIt;
  for (const std::string& name : state.splits) {
    Split& split = splits.emplace_back(Split{name, 0, nullptr});
    DLPIPE_RETURN_IF_ERROR(open_writer(split));
    split.done = split.writer->finished() ? kAllOfIt : split.writer->position();
    // This split has no commit yet: as in an uninterrupted run, its writer is opened with its first sample.
    if (split.done == 0) split.writer.reset();
    next = std::min(next, split.done);
  }
  if (next == kAllOfIt) next = state.total < 0 ? 0 : static_cast<uint64_t>(state.total);
  return {};
}

Result<Interrupted> parse_interrupted(const std::string& name) {
  static const std::vector<std::string> kNames = {"refuse", "resume", "restart"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Interrupted>(i);
  }
  return misuse("writer", "--interrupted ", name, suggestion(name, kNames));
}

Result<std::unique_ptr<SampleWriter>> SampleWriter::open(const SampleWriterOptions& given) {
  try {
    SampleWriterOptions options = given;
    if (options.ingest.destination.empty()) return misuse("writer", "give a destination");
    options.ingest.sources = {"-"};  // check_options() requires a source
    DLPIPE_RETURN_IF_ERROR(check_options(options.ingest));
    DLPIPE_RETURN_IF_ERROR(check_classes(options.classes));
    if (options.ingest.store == Store::kLink)
      return misuse("writer",
                    "images in memory have no file to link to; choose another store, or "
                    "link files with `dlpipe ingest SRC DST --store link`");
    Paths paths(options.ingest.destination);
    std::error_code ignored;
    if (fs::exists(paths.destination, ignored))
      return misuse("writer", paths.destination, " already exists; remove it or choose another");
    DLPIPE_ASSIGN_OR_RETURN(auto partial, data::PartialDirectory::claim("writer", paths.destination));
    const bool was_there = partial.was_there();
    auto impl = std::make_unique<Impl>(options, std::move(paths), std::move(partial));
    if (const Status begun = impl->begin(); !begun.ok()) {
      if (!was_there) DLPIPE_RETURN_IF_ERROR(impl->partial.remove());
      return begun;
    }
    return std::unique_ptr<SampleWriter>(new SampleWriter(std::move(impl)));
  } catch (...) {
    return status_from_current_exception("writer");
  }
}

SampleWriter::SampleWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SampleWriter::~SampleWriter() {
  abandon();
}

const std::vector<data::Field>& SampleWriter::fields() const {
  return impl_->options.fields;
}

int64_t SampleWriter::position() const {
  return static_cast<int64_t>(impl_->next);
}

static Status over() {
  return misuse("writer", "the writer is finished or abandoned");
}

Status SampleWriter::add(NewSample sample) {
  if (impl_->is_over) return over();
  if (!impl_->failure.ok()) return impl_->failure;
  try {
    return impl_->add(std::move(sample));
  } catch (...) {
    return impl_->failure = status_from_current_exception("writer");
  }
}

Result<IngestReport> SampleWriter::finish() {
  if (impl_->is_over) return over();
  if (!impl_->failure.ok()) return impl_->failure;
  try {
    if (!impl_->is_sealed) DLPIPE_RETURN_IF_ERROR(impl_->failure = impl_->finish_splits());
    auto report = impl_->publish();
    impl_->failure = report.status();
    impl_->is_over = report.ok();
    return report;
  } catch (...) {
    return impl_->failure = status_from_current_exception("writer");
  }
}

void SampleWriter::abandon() {
  if (std::exchange(impl_->is_over, true)) return;
  impl_->workers.reset();
  for (Impl::Split& split : impl_->splits) split.writer.reset();
  if (!impl_->is_saved && !impl_->is_sealed) (void)impl_->partial.remove();
  const data::PartialDirectory let_go(std::move(impl_->partial));  // another writer may continue with it
}

namespace {

// Processing samples: checked, gathered in portions, processed in parallel and collected in order.

constexpr uint64_t kPortionBytes = 16 << 20;
constexpr size_t kPortionSamples = 1024;

/// kMisuse unless `name` can be the folder of a split: Dataset::open must find it, and it must be inside DST.
Status check_split_name(const std::string& name) {
  const bool is_folder = name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
                         (name.empty() || name.front() != '.') && name.size() < 200;
  if (is_folder) return {};
  return misuse("writer", "split '", printable(name),
                "' is not a valid folder name; use 'train', 'val' or 'test'");
}

}  // namespace

Status SampleWriter::Impl::check(const NewSample& sample) const {
  const std::vector<data::Field>& fields = options.fields;
  if (sample.values.size() != fields.size())
    return misuse("writer", "sample ", next, " has ", sample.values.size(), " values for ", fields.size(),
                  " fields: ", fields_text(fields));
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto expected = data::fixed_field_bytes(fields[i]);
    const bool is_label = fields[i].kind == data::FieldKind::kLabel;
    if (!is_label && expected && sample.values[i].size() != *expected)
      return misuse("writer", "sample ", next, ": field '", printable(fields[i].name), "' has ",
                    sample.values[i].size(), " bytes, but its shape needs ", *expected);
  }
  const auto labels_fields = std::count_if(fields.begin(), fields.end(), [](const data::Field& field) {
    return field.kind == data::FieldKind::kLabels;
  });
  if (sample.labels.size() != static_cast<size_t>(labels_fields))
    return misuse("writer", "sample ", next, " has ", sample.labels.size(), " lists of labels for ",
                  labels_fields, " fields of labels");
  if (!label_field && sample.label.index() != 0)
    return misuse("writer", "sample ", next, " has a label, but the dataset has no field for it");
  if (!splits.empty() && sample.split.empty() != splits.front().name.empty())
    return misuse("writer", "sample ", next,
                  sample.split.empty() ? " is in no split, but earlier ones were"
                                       : concat(" is in the split '", printable(sample.split),
                                                "', but earlier ones were in none"),
                  "; use splits for all or none");
  return check_split_name(sample.split);
}

size_t SampleWriter::Impl::split_of(const std::string& name) {
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].name == name) return i;
  }
  splits.push_back({name, 0, nullptr});
  return splits.size() - 1;
}

Status SampleWriter::Impl::add(NewSample&& sample) {
  if (state.total >= 0 && next >= static_cast<uint64_t>(state.total))
    return misuse("writer", "the interrupted writer was finished after ", state.total,
                  " samples, but this one has more; finish it, or start over with interrupted 'restart'");
  DLPIPE_RETURN_IF_ERROR(check(sample));
  const size_t known_classes = state.schema.classes.size();
  const Labels known_labels = state.labels;
  const Result<int64_t> label = number_labels(sample);
  if (!label.ok()) {  // undone, as if the sample had not been passed
    state.schema.classes.resize(known_classes);
    state.labels = known_labels;
    return label.status();
  }
  const size_t split = split_of(sample.split);
  uint64_t bytes = 0;
  for (const auto& value : sample.values) bytes += value.size();
  if (next >= splits[split].done) {
    filling.items.push_back({next, split, *label, std::move(sample.values), std::move(sample.problem)});
    filling.bytes += bytes;
  }
  ++next;
  note_border(bytes);
  if (filling.bytes < kPortionBytes && filling.items.size() < kPortionSamples) return {};
  return failure = turn();
}

/// Positions of commits depend only on the sequence of samples, so that a resumed writer commits at the same positions.
void SampleWriter::Impl::note_border(uint64_t bytes) {
  bytes_since_border += bytes;
  if (bytes_since_border < options.ingest.commit_bytes &&
      ++samples_since_border < options.ingest.commit_entries)
    return;
  filling.borders.push_back({filling.items.size(), next});
  bytes_since_border = 0;
  samples_since_border = 0;
}

/// Passes the workers' previous results to the environments, then the full portion to the workers.
Status SampleWriter::Impl::turn() {
  DLPIPE_RETURN_IF_ERROR(drain());
  working = std::move(filling);
  filling = {};
  start_workers();
  return {};
}

void SampleWriter::Impl::start_workers() {
  if (working.items.empty()) return;
  const int jobs = worker_threads(options.ingest);
  while (image_workers.size() < static_cast<size_t>(jobs))
    image_workers.push_back(std::make_unique<ImageWorker>(options.ingest, state.schema, counters, true));
  OrderedWorkers::Job job;
  job.end = working.items.size();
  job.window = kAllOfIt / 2;
  job.cost = [this](uint64_t i) {
    uint64_t bytes = 512;
    for (const auto& value : working.items[i].values) bytes += value.size();
    return bytes;
  };
  job.work = [this](int worker, uint64_t i) -> OrderedWorkers::Outcome {
    Item& item = working.items[i];
    if (!item.problem.ok()) return item.problem;
    ImageWorker::Values values(item.values.begin(), item.values.end());
    if (label_field) values[*label_field] = std::as_bytes(std::span(&item.label, 1));
    std::vector<std::byte> image;
    if (image_field) image = std::move(item.values[*image_field]);
    return image_workers[static_cast<size_t>(worker)]->pack(std::move(image), std::move(values));
  };
  workers = std::make_unique<OrderedWorkers>(jobs, std::move(job));
}

Status SampleWriter::Impl::drain() {
  std::vector<OrderedWorkers::Outcome> outcomes;
  outcomes.reserve(working.items.size());
  for (size_t i = 0; i < working.items.size(); ++i) {
    outcomes.push_back(workers->next());
    Status status = outcomes.back().status();
    if (status.code() == ErrorCode::kOutOfMemory) return status;
  }
  workers.reset();
  if (state.schema.records_per_value == 0 && !outcomes.empty()) decide_packing(outcomes);
  const int64_t write_begin_ns = now_ns();
  auto border = working.borders.begin();
  for (size_t i = 0; i <= working.items.size(); ++i) {
    for (; border != working.borders.end() && border->items == i; ++border)
      DLPIPE_RETURN_IF_ERROR(commit(border->position));
    if (i < working.items.size()) DLPIPE_RETURN_IF_ERROR(take(working.items[i], outcomes[i]));
  }
  write_ns += now_ns() - write_begin_ns;
  working = {};
  return {};
}

void SampleWriter::Impl::decide_packing(const std::vector<OrderedWorkers::Outcome>& outcomes) {
  uint64_t bytes = 0, count = 0;
  for (const OrderedWorkers::Outcome& outcome : outcomes) {
    if (!outcome.ok()) continue;
    bytes += outcome->stored.size();
    ++count;
  }
  state.schema.records_per_value =
      records_per_value(count == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(count));
}

std::string SampleWriter::Impl::name_of(const Item& item) const {
  std::string name = concat("sample ", item.number);
  if (path_field && !item.values[*path_field].empty()) {
    const std::vector<std::byte>& path = item.values[*path_field];
    name = std::string(reinterpret_cast<const char*>(path.data()), path.size());
  }
  return name;
}

Status SampleWriter::Impl::take(const Item& item, const OrderedWorkers::Outcome& outcome) {
  Split& split = splits[item.split];
  if (!split.writer) DLPIPE_RETURN_IF_ERROR(open_writer(split));
  if (outcome.ok()) {
    const auto number = std::ranges::find(state.splits, split.name) - state.splits.begin();
    std::string_view fold;
    if (fold_field) {
      const std::vector<std::byte>& value = item.values[*fold_field];
      fold = {reinterpret_cast<const char*>(value.data()), value.size()};
    }
    images.add(static_cast<size_t>(number), split.writer->samples(), outcome->image_checksum, outcome->look,
               fold);
    return split.writer->add(*outcome);
  }
  if (item.problem.ok() && !is_bad_file(outcome.status())) return outcome.status();
  const std::string name = name_of(item);
  if (options.ingest.on_error == OnError::kStop)
    return bad_file_error("writer", concat("sample ", item.number, " (", printable(name), ")"),
                          outcome.status());
  return split.writer->skip(item.number, name, outcome.status().message());
}

namespace {

// How labels become numbers.

constexpr int64_t kMostClasses = 1'000'000;

}  // namespace

Result<int64_t> SampleWriter::Impl::number_of(const NewSample::Label& label) {
  std::vector<std::string>& classes = state.schema.classes;
  if (const auto* name = std::get_if<std::string>(&label)) {
    const auto found = std::find(classes.begin(), classes.end(), *name);
    if (state.labels == Labels::kNumbers)
      return misuse("writer", "sample ", next, " has the label '", printable(*name),
                    "', but earlier labels were numbers; give classes, or use labels of one kind");
    if (found != classes.end()) return found - classes.begin();
    if (state.labels == Labels::kFixed)
      return misuse("writer", "sample ", next, " has the label '", printable(*name),
                    "', which is not a class", printable(suggestion(*name, classes)));
    if (static_cast<int64_t>(classes.size()) == kMostClasses)
      return misuse("writer", "sample ", next, ": there are more than ", kMostClasses,
                    " classes; use numbers as labels, or fewer names");
    state.labels = Labels::kNames;
    classes.push_back(*name);
    return static_cast<int64_t>(classes.size()) - 1;
  }
  const auto* number = std::get_if<int64_t>(&label);
  if (number == nullptr || *number == -1) return -1;
  if (state.labels == Labels::kNames)
    return misuse("writer", "sample ", next, " has the label ", *number,
                  ", but earlier labels were names; give classes, or use labels of one kind");
  const int64_t most = state.labels == Labels::kFixed ? static_cast<int64_t>(classes.size()) : kMostClasses;
  if (*number < 0 || *number >= most)
    return misuse("writer", "sample ", next, " has the label ", *number, " of ", most,
                  " classes; -1 means no class");
  if (state.labels == Labels::kFixed) return *number;
  state.labels = Labels::kNumbers;
  while (static_cast<int64_t>(classes.size()) <= *number) classes.push_back(concat(classes.size()));
  return *number;
}

Result<int64_t> SampleWriter::Impl::number_labels(NewSample& sample) {
  const std::vector<data::Field>& fields = options.fields;
  DLPIPE_ASSIGN_OR_RETURN(const int64_t label, number_of(sample.label));
  auto labels = sample.labels.begin();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind != data::FieldKind::kLabels) continue;
    std::vector<int64_t> numbers;
    for (const NewSample::Label& one : *labels++) {
      DLPIPE_ASSIGN_OR_RETURN(numbers.emplace_back(), number_of(one));
      if (numbers.back() < 0)
        return misuse("writer", "sample ", next, ": field '", printable(fields[i].name),
                      "' holds a label that is not a class; leave it out");
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    sample.values[i].assign(bytes.begin(), bytes.end());
  }
  const std::vector<std::span<const std::byte>> values(sample.values.begin(), sample.values.end());
  if (const Status status = data::check_values(fields, values, -1); !status.ok())
    return misuse("writer", "sample ", next, ": ", status.message());
  return label;
}

namespace {

// The environments that receive the samples: opened, committed, finished, and renamed to DST.

/// The final size is unknown, and a map only costs address space.
constexpr uint64_t kMapBytes = uint64_t{1} << 40;

}  // namespace

Status SampleWriter::Impl::open_writer(Split& split) {
  const std::string directory = paths.split(paths.partial, split.name);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return status_from_errno("writer", concat("cannot create ", directory), error.value());
  DLPIPE_RETURN_IF_ERROR(drop_unbegun_environment(directory));
  const uint64_t map_bytes = options.ingest.map_bytes != 0 ? options.ingest.map_bytes : kMapBytes;
  DLPIPE_ASSIGN_OR_RETURN(split.writer, data::DatasetWriter::open(directory, state.schema, map_bytes));
  const bool is_named = std::ranges::find(state.splits, split.name) != state.splits.end();
  if (!is_named) state.splits.push_back(split.name);
  return {};
}

static Status no_sample_of(const std::string& split) {
  return misuse("writer", "no sample was added to the split '", printable(split),
                "', which the interrupted writer had; add them, or start over with interrupted 'restart'");
}

Status SampleWriter::Impl::save() {
  if (is_saved && saved == state) return {};
  DLPIPE_RETURN_IF_ERROR(save_state(state, paths.list));
  saved = state;
  is_saved = true;
  return {};
}

Status SampleWriter::Impl::commit(uint64_t position) {
  DLPIPE_RETURN_IF_ERROR(save());
  for (Split& split : splits) {
    if (!split.writer || split.done >= position) continue;
    DLPIPE_RETURN_IF_ERROR(split.writer->commit(position));
    split.done = position;
  }
  return {};
}

Status SampleWriter::Impl::finish_splits() {
  DLPIPE_RETURN_IF_ERROR(turn());
  DLPIPE_RETURN_IF_ERROR(drain());
  if (next == 0) return misuse("writer", "no sample was added, so nothing was written");
  if (state.total >= 0 && next < static_cast<uint64_t>(state.total))
    return misuse("writer", "the interrupted writer was finished after ", state.total,
                  " samples, but this one after ", next,
                  "; add the others, or start over with interrupted 'restart'");
  for (const Split& split : splits) {
    if (!split.writer) return no_sample_of(split.name);
  }
  state.total = static_cast<int64_t>(next);
  if (state.schema.records_per_value == 0) state.schema.records_per_value = 1;
  DLPIPE_RETURN_IF_ERROR(save());
  for (Split& split : splits) {
    split.writer->set_classes(state.schema.classes);
    DLPIPE_RETURN_IF_ERROR(split.writer->finish(next));
    DLPIPE_RETURN_IF_ERROR(sync_directory("ingest", paths.split(paths.partial, split.name)));
  }
  return {};
}

Result<IngestReport> SampleWriter::Impl::publish() {
  IngestReport report;
  report.resumed = is_resumed;
  DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, state.splits, report));
  for (const IngestReport::Split& split : report.splits) {
    if (split.samples > 0) continue;
    if (report.skipped.empty()) return no_sample_of(split.name);
    DLPIPE_RETURN_IF_ERROR(partial.remove());
    return Status(
        ErrorCode::kCorrupt,
        concat("[writer] no usable sample", split.name.empty() ? "" : concat(" in the split ", split.name),
               ": ", report.skipped.size(), " were skipped; the first: ", printable(report.skipped[0].path),
               ": ", without_area(report.skipped[0].reason)));
  }
  if (!is_sealed)
    DLPIPE_RETURN_IF_ERROR(find_duplicates(
        {"writer", state.splits.size() > 1 || fold_field ? worker_threads(options.ingest) : 0}, paths,
        paths.partial, state.splits, images, options.ingest.on_warning, report));
  if (!is_sealed) DLPIPE_RETURN_IF_ERROR(seal(paths, {state.options, "", state.total, {}}, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  report.stages = {{"decode", seconds(counters.decode_ns.value())},
                   {"encode", seconds(counters.encode_ns.value())},
                   {"write", seconds(write_ns)}};
  report.seconds = seconds(now_ns() - begin_ns);
  return report;
}

}  // namespace dlpipe::ingest
