#include "dlpipe/run/ingest/sample_writer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset_writer.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/run/ingest/files.h"
#include "dlpipe/run/ingest/freeze.h"
#include "dlpipe/run/ingest/image_worker.h"
#include "dlpipe/run/ingest/options.h"
#include "dlpipe/run/ingest/ordered_workers.h"
#include "dlpipe/run/ingest/publish.h"
#include "dlpipe/run/ingest/sample_writer_state.h"

namespace dlpipe::ingest {

namespace {

namespace fs = std::filesystem;
using data::Field;
using data::FieldKind;

constexpr uint64_t kPortionBytes = 16 << 20;
constexpr size_t kPortionSamples = 1024;
constexpr int64_t kMostClasses = 1'000'000;
constexpr uint64_t kAllOfIt = std::numeric_limits<uint64_t>::max();
/// Nobody knows how much will come, and what is asked for is address space only.
constexpr uint64_t kMapBytes = uint64_t{1} << 40;

std::vector<Field> default_fields() {
  return {{"image", FieldKind::kImage, DType::kU8, {}},
          {"label", FieldKind::kLabel, DType::kI64, {}},
          {"path", FieldKind::kBytes, DType::kU8, {}}};
}

Status check_fields(const std::vector<Field>& fields) {
  std::set<std::string> names;
  int images = 0, labels = 0;
  for (const Field& field : fields) {
    if (field.name.empty() || !names.insert(field.name).second)
      return misuse("writer", "a field's name is empty or there twice: '", printable(field.name), "'");
    images += field.kind == FieldKind::kImage ? 1 : 0;
    labels += field.kind == FieldKind::kLabel ? 1 : 0;
    const bool known = field.kind == FieldKind::kImage || field.kind == FieldKind::kLabel ||
                       field.kind == FieldKind::kBytes || data::fixed_field_bytes(field).has_value() ||
                       data::field_row_bytes(field).has_value();
    if (!known)
      return misuse("writer", "field '", printable(field.name),
                    "' is of a kind that is not written: ", data::field_kind_name(field.kind),
                    "; use image, label, bytes, labels, boxes, points or a tensor");
  }
  if (const Status forms = data::check_forms(fields); !forms.ok()) return misuse("writer", forms.message());
  if (images > 1 || labels > 1)
    return misuse("writer", "more than one image or label field; one is supported");
  if (fields.size() > data::kMostFields)
    return misuse("writer", fields.size(), " fields; a dataset has at most ", data::kMostFields);
  return {};
}

std::optional<size_t> find_kind(const std::vector<Field>& fields, FieldKind kind) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind == kind) return i;
  }
  return std::nullopt;
}

/// A split's folder: one that Dataset::open finds, and none outside of DST.
Status check_split_name(const std::string& name) {
  const bool is_folder = name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
                         (name.empty() || name.front() != '.') && name.size() < 200;
  if (is_folder) return {};
  return misuse("writer", "split '", printable(name),
                "' is no name of a folder; use 'train', 'val' or 'test'");
}

/// One sample on its way to its record.
struct Item {
  uint64_t number = 0;
  size_t split = 0;
  int64_t label = -1;
  std::vector<std::vector<std::byte>> values;
};

/// Samples that workers take at once, and where commits lie among them.
struct Portion {
  struct Border {
    size_t items = 0;       // that come before
    uint64_t position = 0;  // of the next sample
  };
  std::vector<Item> items;
  std::vector<Border> borders;
  uint64_t bytes = 0;
};

struct Split {
  std::string name;
  uint64_t done = 0;  // samples below this number stand in its environment
  std::unique_ptr<data::DatasetWriter> writer;
};

}  // namespace

struct SampleWriter::Impl {
  Impl(const SampleWriterOptions& given, Paths paths_in, data::PartialDirectory partial_in)
      : options(given), paths(std::move(paths_in)), partial(std::move(partial_in)) {}

  SampleWriterOptions options;
  Paths paths;
  data::PartialDirectory partial;
  SampleWriterState state;
  SampleWriterState saved;
  bool is_saved = false;
  bool is_sealed = false;  // provenance stands, only the rename is missing
  bool is_over = false;
  Status failure;
  std::optional<size_t> image_field, label_field, path_field;

  std::vector<Split> splits;
  uint64_t next = 0;  // number of the next sample
  uint64_t bytes_since_border = 0;
  int64_t samples_since_border = 0;
  Portion filling;
  Portion working;
  std::vector<std::unique_ptr<ImageWorker>> image_workers;
  std::unique_ptr<OrderedWorkers> workers;  // of `working`
  WorkCounters counters;
  int64_t write_ns = 0;
  int64_t begin_ns = now_ns();
  bool is_resumed = false;

  Status begin();
  Status resume();
  Status check(const NewSample& sample) const;
  Result<int64_t> number_of(const NewSample::Label& label);
  Result<int64_t> number_labels(NewSample& sample);
  size_t split_of(const std::string& name);
  Status add(NewSample&& sample);
  void note_border(uint64_t bytes);
  Status turn();
  void start_workers();
  Status drain();
  void decide_packing(const std::vector<OrderedWorkers::Outcome>& outcomes);
  Status take(const Item& item, const OrderedWorkers::Outcome& outcome);
  Status open_writer(Split& split);
  Status commit(uint64_t position);
  Status save();
  Status finish_splits();
  Result<IngestReport> publish();
  std::string name_of(const Item& item) const;
};

// --- opening -------------------------------------------------------------------------------------------------------

Status SampleWriter::Impl::begin() {
  if (options.fields.empty()) options.fields = default_fields();
  DLPIPE_RETURN_IF_ERROR(check_fields(options.fields));
  image_field = find_kind(options.fields, FieldKind::kImage);
  label_field = find_kind(options.fields, FieldKind::kLabel);
  for (size_t i = 0; i < options.fields.size(); ++i) {
    if (options.fields[i].name == "path" && options.fields[i].kind == FieldKind::kBytes) path_field = i;
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

Status SampleWriter::Impl::resume() {
  if (options.interrupted == Interrupted::kRefuse)
    return misuse(
        "writer", paths.partial,
        " holds what an interrupted writer has committed; open it with interrupted 'resume' to go on "
        "behind that, or 'restart' to remove it and begin again");
  is_resumed = true;
  std::error_code ignored;
  if (!fs::exists(paths.list, ignored)) {
    DLPIPE_ASSIGN_OR_RETURN(const Provenance provenance, read_provenance(paths.provenance));
    is_sealed = true;
    state.total = provenance.files;
    state.options = provenance.options;
    state.splits = provenance.splits;
    next = static_cast<uint64_t>(state.total);
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(SampleWriterState former, load_state(paths.list));
  std::string difference = first_difference(former.options, state.options);
  const std::string was = fields_text(former.schema.fields), is = fields_text(state.schema.fields);
  if (difference.empty() && was != is) difference = concat("fields ", was, ", now ", is);
  const bool same_table =
      former.labels == Labels::kFixed ? former.schema.classes == options.classes : options.classes.empty();
  if (difference.empty() && !same_table) difference = "classes";
  if (difference.empty() && former.source != state.source)
    difference = concat("samples of ", printable(former.source), ", now ", printable(state.source));
  if (!difference.empty())
    return misuse("writer", paths.partial, " was begun with other options: ", difference,
                  "; use those, or begin again with interrupted 'restart'");
  state = saved = std::move(former);
  is_saved = true;
  next = kAllOfIt;
  for (const std::string& name : state.splits) {
    Split& split = splits.emplace_back(Split{name, 0, nullptr});
    DLPIPE_RETURN_IF_ERROR(open_writer(split));
    split.done = split.writer->finished() ? kAllOfIt : split.writer->position();
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
    options.ingest.sources = {"-"};  // what the options' check wants to see
    DLPIPE_RETURN_IF_ERROR(check_options(options.ingest));
    if (options.ingest.store == Store::kLink)
      return misuse("writer", "pictures in memory lie in no file: a store of links is `dlpipe ingest`'s");
    Paths paths(options.ingest.destination);
    std::error_code ignored;
    if (fs::exists(paths.destination, ignored))
      return misuse("writer", paths.destination, " exists already; remove it or choose another");
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

// --- taking samples ------------------------------------------------------------------------------------------------

Status SampleWriter::Impl::check(const NewSample& sample) const {
  const std::vector<Field>& fields = options.fields;
  if (sample.values.size() != fields.size())
    return misuse("writer", "sample ", next, " has ", sample.values.size(), " values for ", fields.size(),
                  " fields: ", fields_text(fields));
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto expected = data::fixed_field_bytes(fields[i]);
    const bool is_label = fields[i].kind == FieldKind::kLabel;
    if (!is_label && expected && sample.values[i].size() != *expected)
      return misuse("writer", "sample ", next, ": field '", printable(fields[i].name), "' has ",
                    sample.values[i].size(), " bytes, its shape says ", *expected);
  }
  const auto labels_fields = std::count_if(
      fields.begin(), fields.end(), [](const Field& field) { return field.kind == FieldKind::kLabels; });
  if (sample.labels.size() != static_cast<size_t>(labels_fields))
    return misuse("writer", "sample ", next, " has ", sample.labels.size(), " lists of labels for ",
                  labels_fields, " fields of labels");
  if (!label_field && sample.label.index() != 0)
    return misuse("writer", "sample ", next, " has a label, and the dataset has no field for it");
  if (!splits.empty() && sample.split.empty() != splits.front().name.empty())
    return misuse("writer", "sample ", next,
                  sample.split.empty() ? " is in no split, and those before were in one"
                                       : concat(" is in the split '", printable(sample.split),
                                                "', and those before were in none"),
                  "; use splits for all or none");
  return check_split_name(sample.split);
}

Result<int64_t> SampleWriter::Impl::number_of(const NewSample::Label& label) {
  std::vector<std::string>& classes = state.schema.classes;
  if (const auto* name = std::get_if<std::string>(&label)) {
    const auto found = std::find(classes.begin(), classes.end(), *name);
    if (state.labels == Labels::kNumbers)
      return misuse("writer", "sample ", next, " has the label '", printable(*name),
                    "', those before were numbers; give classes, or labels of one kind");
    if (found != classes.end()) return found - classes.begin();
    if (state.labels == Labels::kFixed)
      return misuse("writer", "sample ", next, " has the label '", printable(*name), "', which is no class",
                    printable(suggestion(*name, classes)));
    if (static_cast<int64_t>(classes.size()) == kMostClasses)
      return misuse("writer", "sample ", next, ": more than ", kMostClasses, " classes");
    state.labels = Labels::kNames;
    classes.push_back(*name);
    return static_cast<int64_t>(classes.size()) - 1;
  }
  const auto* number = std::get_if<int64_t>(&label);
  if (number == nullptr || *number == -1) return -1;
  if (state.labels == Labels::kNames)
    return misuse("writer", "sample ", next, " has the label ", *number,
                  ", those before were names; give classes, or labels of one kind");
  const int64_t most = state.labels == Labels::kFixed ? static_cast<int64_t>(classes.size()) : kMostClasses;
  if (*number < 0 || *number >= most)
    return misuse("writer", "sample ", next, " has the label ", *number, " of ", most,
                  " classes; -1 is no class");
  if (state.labels == Labels::kFixed) return *number;
  state.labels = Labels::kNumbers;
  while (static_cast<int64_t>(classes.size()) <= *number) classes.push_back(concat(classes.size()));
  return *number;
}

/// The label's number; those of labels fields become their values. What is wrong with the other values is found, too.
Result<int64_t> SampleWriter::Impl::number_labels(NewSample& sample) {
  const std::vector<Field>& fields = options.fields;
  DLPIPE_ASSIGN_OR_RETURN(const int64_t label, number_of(sample.label));
  auto labels = sample.labels.begin();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind != FieldKind::kLabels) continue;
    std::vector<int64_t> numbers;
    for (const NewSample::Label& one : *labels++) {
      DLPIPE_ASSIGN_OR_RETURN(numbers.emplace_back(), number_of(one));
      if (numbers.back() < 0)
        return misuse("writer", "sample ", next, ": field '", printable(fields[i].name),
                      "' holds a label that is no class; leave it out");
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    sample.values[i].assign(bytes.begin(), bytes.end());
  }
  const std::vector<std::span<const std::byte>> values(sample.values.begin(), sample.values.end());
  if (const Status status = data::check_values(fields, values, -1); !status.ok())
    return misuse("writer", "sample ", next, ": ", status.message());
  return label;
}

size_t SampleWriter::Impl::split_of(const std::string& name) {
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].name == name) return i;
  }
  splits.push_back({name, 0, nullptr});
  state.splits.push_back(name);
  return splits.size() - 1;
}

Status SampleWriter::Impl::add(NewSample&& sample) {
  if (state.total >= 0 && next >= static_cast<uint64_t>(state.total))
    return misuse("writer", "the interrupted writer had ended after ", state.total,
                  " samples, and here is one more; finish it, or begin again with interrupted 'restart'");
  DLPIPE_RETURN_IF_ERROR(check(sample));
  const size_t known_classes = state.schema.classes.size();
  const Labels known_labels = state.labels;
  const Result<int64_t> label = number_labels(sample);
  if (!label.ok()) {  // as if it had not come
    state.schema.classes.resize(known_classes);
    state.labels = known_labels;
    return label.status();
  }
  const size_t split = split_of(sample.split);
  uint64_t bytes = 0;
  for (const auto& value : sample.values) bytes += value.size();
  if (next >= splits[split].done) {
    filling.items.push_back({next, split, *label, std::move(sample.values)});
    filling.bytes += bytes;
  }
  ++next;
  note_border(bytes);
  if (filling.bytes < kPortionBytes && filling.items.size() < kPortionSamples) return {};
  return failure = turn();
}

/// Commits lie where the sequence of samples alone says, so that a continued writer commits at the same places.
void SampleWriter::Impl::note_border(uint64_t bytes) {
  bytes_since_border += bytes;
  if (bytes_since_border < options.ingest.commit_bytes &&
      ++samples_since_border < options.ingest.commit_entries)
    return;
  filling.borders.push_back({filling.items.size(), next});
  bytes_since_border = 0;
  samples_since_border = 0;
}

// --- records -------------------------------------------------------------------------------------------------------

/// The portion that is full goes to the workers, and what they had goes to the environments.
Status SampleWriter::Impl::turn() {
  DLPIPE_RETURN_IF_ERROR(drain());
  working = std::move(filling);
  filling = {};
  start_workers();
  return {};
}

void SampleWriter::Impl::start_workers() {
  if (working.items.empty()) return;
  const int jobs = options.ingest.jobs > 0 ? options.ingest.jobs : available_threads();
  while (image_workers.size() < static_cast<size_t>(jobs))
    image_workers.push_back(std::make_unique<ImageWorker>(options.ingest, state.schema, counters));
  OrderedWorkers::Job job;
  job.end = working.items.size();
  job.window = kAllOfIt / 2;
  job.cost = [this](uint64_t i) {
    uint64_t bytes = 512;
    for (const auto& value : working.items[i].values) bytes += value.size();
    return bytes;
  };
  job.work = [this](int worker, uint64_t i) {
    Item& item = working.items[i];
    ImageWorker::Values values(item.values.begin(), item.values.end());
    if (label_field) values[*label_field] = std::as_bytes(std::span(&item.label, 1));
    std::vector<std::byte> picture;
    if (image_field) picture = std::move(item.values[*image_field]);
    return image_workers[static_cast<size_t>(worker)]->pack(std::move(picture), std::move(values));
  };
  workers = std::make_unique<OrderedWorkers>(jobs, std::move(job));
}

Status SampleWriter::Impl::drain() {
  std::vector<OrderedWorkers::Outcome> outcomes;
  outcomes.reserve(working.items.size());
  for (size_t i = 0; i < working.items.size(); ++i) {
    outcomes.push_back(workers->next());
    const Status status = outcomes.back().status();
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
  if (outcome.ok()) return split.writer->add(*outcome);
  if (!is_bad_file(outcome.status())) return outcome.status();
  const std::string name = name_of(item);
  if (options.ingest.on_error == OnError::kStop)
    return outcome.status().with_context(
        concat("[writer] sample ", item.number, " (", printable(name), "): "));
  return split.writer->skip(item.number, name, outcome.status().message());
}

// --- environments --------------------------------------------------------------------------------------------------

Status SampleWriter::Impl::open_writer(Split& split) {
  const std::string directory = paths.split(paths.partial, split.name);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return status_from_errno("writer", concat("cannot make ", directory), error.value());
  DLPIPE_RETURN_IF_ERROR(drop_unbegun_environment(directory));
  const uint64_t map_bytes = options.ingest.map_bytes != 0 ? options.ingest.map_bytes : kMapBytes;
  DLPIPE_ASSIGN_OR_RETURN(split.writer, data::DatasetWriter::open(directory, state.schema, map_bytes));
  return {};
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
  if (next == 0) return misuse("writer", "no sample was added; nothing is made");
  if (state.total >= 0 && next < static_cast<uint64_t>(state.total))
    return misuse("writer", "the interrupted writer had ended after ", state.total,
                  " samples, this one after ", next,
                  "; add the others, or begin again with interrupted 'restart'");
  state.total = static_cast<int64_t>(next);
  if (state.schema.records_per_value == 0) state.schema.records_per_value = 1;
  DLPIPE_RETURN_IF_ERROR(save());
  for (Split& split : splits) {
    split.writer->set_classes(state.schema.classes);
    DLPIPE_RETURN_IF_ERROR(split.writer->finish(next));
    DLPIPE_RETURN_IF_ERROR(sync_directory(paths.split(paths.partial, split.name)));
  }
  return {};
}

Result<IngestReport> SampleWriter::Impl::publish() {
  IngestReport report;
  report.resumed = is_resumed;
  DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, state.splits, report));
  for (const IngestReport::Split& split : report.splits) {
    if (split.samples > 0) continue;
    DLPIPE_RETURN_IF_ERROR(partial.remove());
    return Status(
        ErrorCode::kCorrupt,
        concat("[writer] no usable sample", split.name.empty() ? "" : concat(" in the split ", split.name),
               ": ", report.skipped.size(), " were skipped; the first: ", printable(report.skipped[0].path),
               ": ", without_area(report.skipped[0].reason)));
  }
  if (!is_sealed) DLPIPE_RETURN_IF_ERROR(seal(paths, {state.options, "", state.total, {}}, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  report.stages = {{"decode", seconds(counters.decode_ns.value())},
                   {"encode", seconds(counters.encode_ns.value())},
                   {"write", seconds(write_ns)}};
  report.seconds = seconds(now_ns() - begin_ns);
  return report;
}

// --- the public face -----------------------------------------------------------------------------------------------

SampleWriter::SampleWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SampleWriter::~SampleWriter() {
  abandon();
}

const std::vector<Field>& SampleWriter::fields() const {
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
  for (Split& split : impl_->splits) split.writer.reset();
  if (!impl_->is_saved && !impl_->is_sealed) (void)impl_->partial.remove();
}

}  // namespace dlpipe::ingest
