// Creates datasets: `dlpipe ingest` as a function, and the writer for samples from Python code.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/messages.h"
#include "base/mutex.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "dlpipe/log.h"
#include "io/data/schema.h"
#include "io/data/sources/typed_columns.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"
#include "run/ingest/draw.h"
#include "run/ingest/options.h"
#include "run/ingest/sample_writer.h"
#include "run/input/path_kind.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using data::Field;
using data::FieldKind;
using ingest::IngestOptions;
using ingest::NewSample;
using ingest::SampleWriter;

// ---- how images are stored: options that ingest and the writer share

template <class T>
T typed(const char* name, nb::handle value, const char* type) {
  T typed;
  if (nb::try_cast(value, typed, false)) return typed;
  throw nb::type_error(concat(name, "=", nb::repr(value).c_str(), "; give ", type).c_str());
}

template <auto kMember, auto kParse>
void set_name(IngestOptions& options, const char* name, nb::handle value) {
  options.*kMember = value_or_throw(kParse(typed<std::string>(name, value, "a string")));
}
template <auto kMember>
void set_switch(IngestOptions& options, const char* name, nb::handle value) {
  options.*kMember = typed<bool>(name, value, "True or False");
}
template <auto kMember, class T>
void set_number(IngestOptions& options, const char* name, nb::handle value) {
  options.*kMember = typed<T>(name, value, "an int");
}
/// Bytes as a number, or as a string with a unit.
uint64_t bytes_option(const char* name, nb::handle value) {
  uint64_t bytes = 0;
  if (nb::try_cast(value, bytes, false)) return bytes;
  std::string text;
  if (nb::try_cast(value, text) && parse_bytes(text, &bytes)) return bytes;
  refuse("ingest", name, " ", nb::repr(value).c_str(),
         "; give bytes as a number, or a string with a unit such as '512MiB'");
}

void set_map_bytes(IngestOptions& options, const char* name, nb::handle value) {
  options.map_bytes = bytes_option(name, value);
}

void set_background(IngestOptions& options, const char* name, nb::handle value) {
  options.background = value_or_throw(ingest::parse_background(typed<std::string>(name, value, "a string")));
}

struct StoringOption {
  const char* name;
  void (*set)(IngestOptions& options, const char* name, nb::handle value);
};
constexpr std::array kOptions = {
    StoringOption{"on_error", set_name<&IngestOptions::on_error, ingest::parse_on_error>},
    StoringOption{"store", set_name<&IngestOptions::store, ingest::parse_store>},
    StoringOption{"jpeg", set_name<&IngestOptions::jpeg, ingest::parse_jpeg_layout>},
    StoringOption{"trust", set_switch<&IngestOptions::trust>},
    StoringOption{"resize_max", set_number<&IngestOptions::resize_max, int>},
    StoringOption{"background", set_background},
    StoringOption{"quality", set_number<&IngestOptions::quality, int>},
    StoringOption{"zstd", set_switch<&IngestOptions::zstd>},
    StoringOption{"threads", set_number<&IngestOptions::jobs, int>},
    StoringOption{"map_size", set_map_bytes},
    StoringOption{"max_pixels", set_number<&IngestOptions::max_pixels, int64_t>},
};

/// Sets what `given` names (dlpipe/ingest.py); TypeError for an unknown name, and for a value of another type.
void set_storing_options(const nb::dict& given, IngestOptions& options) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto* option = std::find_if(kOptions.begin(), kOptions.end(),
                                      [&](const StoringOption& one) { return one.name == name; });
    if (option == kOptions.end()) throw nb::type_error(name.c_str());  // Python has checked the name
    option->set(options, option->name, value);
  }
}

/// The JSON that `--json` prints for a report. Warns about files that were skipped.
nb::any answer_of(const ingest::IngestReport& report) {
  if (const std::string skipped = ingest::skipped_text(report); !skipped.empty()) {
    log(LogLevel::kWarning, concat("[ingest] ", skipped));
    pass_log_on();
  }
  return from_json(ingest::to_json(report));
}

// ---- ingest

nb::dict to_dict(const ingest::IngestProgress& progress) {
  nb::dict dict;
  dict["split"] = to_text(progress.split);
  dict["done"] = progress.done;
  dict["total"] = progress.total;
  dict["skipped"] = progress.skipped;
  dict["bytes_done"] = progress.bytes_done;
  dict["seconds"] = progress.seconds;
  dict["samples_per_s"] = progress.samples_per_s;
  dict["remaining_s"] = progress.remaining_s;
  dict["limit"] = progress.limiting;
  return dict;
}

/// Returns what `--json` prints.
nb::any run_ingest(const std::vector<nb::bytes>& sources, const nb::bytes& destination, const nb::bytes& list,
                   const nb::bytes& manifest, const std::string& label, const std::vector<std::string>& field,
                   const nb::bytes& labels, const nb::bytes& images, const nb::bytes& classes_from,
                   int64_t limit, const std::string& split, const std::string& group, int folds,
                   const std::string& part, const std::string& dedup, bool no_splits, int64_t length,
                   uint64_t seed, const nb::object& window, const nb::dict& storing,
                   const nb::object& progress) {
  ingest::IngestOptions options;
  for (const nb::bytes& source : sources) {
    options.sources.push_back(to_path(source));
    throw_if_error(run::refuse_other_kind("ingest", options.sources.back(), run::Wanted::kRawData));
  }
  options.destination = to_path(destination);
  options.list = to_path(list);
  options.manifest = to_path(manifest);
  options.label = label;
  options.fields = field;
  options.labels = to_path(labels);
  options.images = to_path(images);
  options.classes_from = to_path(classes_from);
  options.limit = limit;
  if (!split.empty()) options.split = value_or_throw(ingest::parse_split(split));
  options.group = group;
  options.folds = folds;
  if (!part.empty()) options.part = value_or_throw(ingest::parse_part(part));
  options.dedup = value_or_throw(ingest::parse_dedup(dedup));
  options.no_splits = no_splits;
  options.length = length;
  options.seed = seed;
  options.window_bytes = bytes_option("window", window);
  set_storing_options(storing, options);

  Task task;
  options.on_warning = [](const std::string& warning) { log(LogLevel::kWarning, warning); };
  options.stop_requested = [&] { return task.stop_requested().load(); };
  std::function<void(const ingest::IngestProgress&)> on_progress;
  if (!progress.is_none()) {
    on_progress = [&](const ingest::IngestProgress& now) { task.call([&] { progress(to_dict(now)); }); };
  }
  ingest::IngestReport report;
  task.run([&] { report = value_or_throw(ingest::ingest(options, on_progress)); });
  return answer_of(report);
}

/// The split of each sample, "" if there are none; None for samples beyond the limit.
std::vector<std::optional<std::string>> draw(const std::vector<std::string>& names,
                                             const std::vector<int64_t>& classes, int64_t limit,
                                             const std::string& split, uint64_t seed) {
  throw_if_error(ingest::check_limit(limit));
  const std::vector<std::string_view> views(names.begin(), names.end());
  ingest::SampleDraw draw = {.names = views, .classes = classes, .limit = limit, .seed = seed};
  if (!split.empty()) draw.split = value_or_throw(ingest::parse_split(split));
  std::vector<std::optional<std::string>> splits;
  for (const auto& drawn : value_or_throw(ingest::draw_samples(draw))) {
    auto& one = splits.emplace_back();
    if (drawn) one = draw.split.empty() ? "" : ingest::kDrawnSplits[*drawn];
  }
  return splits;
}

// ---- the writer

/// Takes a lock: Python's threads may share a writer. In a forked child it does nothing: the files on disk are the parent's, and
/// the child lacks the threads that the writer would wait for, or that hold the lock.
class OpenWriter {
 public:
  OpenWriter(std::unique_ptr<SampleWriter> writer, int64_t max_pixels)
      : max_pixels_(max_pixels), writer_(std::move(writer)) {}
  ~OpenWriter() {
    close();
    if (is_forked()) (void)writer_.release();
  }

  bool is_forked() const { return ::getpid() != process_; }
  int64_t max_pixels() const { return max_pixels_; }
  void add(NewSample sample) {
    refuse_forked();
    unlocked([&] {
      const MutexLock lock(mutex_);
      return writer_->add(std::move(sample));
    });
  }
  ingest::IngestReport finish() {
    refuse_forked();
    return unlocked([&] {
      const MutexLock lock(mutex_);
      return writer_->finish();
    });
  }
  void close() {
    if (is_forked()) return;
    const Unlocked no_lock;
    const MutexLock lock(mutex_);
    writer_->abandon();
  }
  int64_t position() {
    refuse_forked();
    const Unlocked no_lock;
    const MutexLock lock(mutex_);
    return writer_->position();
  }

 private:
  void refuse_forked() const {
    if (is_forked())
      refuse("writer", "this process was forked from process ", process_,
             ", which owns this writer; write there, or open a writer for another dataset here");
  }

  const pid_t process_ = ::getpid();
  const int64_t max_pixels_;
  Mutex mutex_;
  std::unique_ptr<SampleWriter> writer_ DLPIPE_POINTEE_GUARDED_BY(mutex_);
};

/// None, bytes of a name, or a number, as dlpipe/writer.py makes them.
NewSample::Label label_of(const nb::handle& value) {
  if (value.is_none()) return {};
  if (PyBytes_Check(value.ptr())) {
    const auto name = nb::cast<nb::bytes>(value);
    return std::string(name.c_str(), name.size());
  }
  return nb::cast<int64_t>(value);
}

/// A record's bytes for `value`, which dlpipe/writer.py made for a field of this kind.
void add_value(const std::string& kind, const nb::handle& value, int64_t max_pixels, NewSample& sample) {
  std::vector<std::byte>& bytes = sample.values.emplace_back();
  if (kind == "image" && PyUnicode_Check(value.ptr())) {  // dlpipe/images.py's Unreadable
    sample.problem = Status(ErrorCode::kNotFound, nb::cast<std::string>(value));
  } else if ((kind == "image" || kind == "mask") && PyTuple_Check(value.ptr())) {  // its Oversized
    const auto [width, height] = nb::cast<std::pair<int, int>>(value);
    sample.problem = data::check_pixels({.width = width, .height = height}, max_pixels);
  } else if (kind == "image") {
    bytes = image_bytes(value);
  } else if (kind == "mask") {
    bytes = mask_bytes(value);
  } else if (kind == "label") {
    sample.label = label_of(value);
  } else if (kind == "labels") {
    std::vector<NewSample::Label>& labels = sample.labels.emplace_back();
    for (const nb::handle& one : nb::cast<nb::list>(value)) labels.push_back(label_of(one));
  } else {
    bytes = bytes_of(value);
  }
}

/// `values` in the order of the fields.
void write_sample(OpenWriter& self, const nb::list& values, const std::string& split,
                  const std::vector<std::string>& kinds) {
  NewSample sample;
  sample.split = split;
  for (size_t i = 0; i < kinds.size(); ++i) add_value(kinds[i], values[i], self.max_pixels(), sample);
  self.add(std::move(sample));
}

/// Converts rows of x, y, width, height to boxes.
nb::bytes boxes_of_xywh(const std::string& field, const nb::bytes& rows) {
  std::vector<float> numbers(rows.size() / sizeof(float));
  std::memcpy(numbers.data(), rows.data(), numbers.size() * sizeof(float));
  const Result<std::string> boxes = data::encode_boxes(std::move(numbers), true);
  if (!boxes.ok()) refuse("writer", "field '", printable(field), "': ", boxes.status().message());
  return nb::bytes(boxes->data(), boxes->size());
}

/// Fields as tuples (name, kind, dtype, shape, of).
std::vector<Field> fields_of(const nb::list& list) {
  std::vector<Field> fields;
  for (const nb::handle& one : list) {
    const auto tuple = nb::cast<nb::tuple>(one);
    Field field;
    field.name = nb::cast<std::string>(tuple[0]);
    field.kind = value_or_throw(data::parse_field_kind(nb::cast<std::string>(tuple[1])));
    field.dtype = value_or_throw(parse_dtype(nb::cast<std::string>(tuple[2])));
    field.shape = Shape(nb::cast<std::vector<int64_t>>(tuple[3]));
    field.of = nb::cast<std::string>(tuple[4]);
    fields.push_back(std::move(field));
  }
  return fields;
}

void open_writer(OpenWriter* self, const nb::bytes& destination, const nb::list& fields,
                 const std::vector<std::string>& classes, const std::string& source,
                 const std::string& interrupted, const nb::dict& storing) {
  ingest::SampleWriterOptions options;
  options.fields = fields_of(fields);
  options.classes = classes;
  options.source = source;
  options.interrupted = value_or_throw(ingest::parse_interrupted(interrupted));
  ingest::IngestOptions& ingest = options.ingest;
  ingest.destination = to_path(destination);
  ingest.on_error = ingest::OnError::kStop;
  ingest.on_warning = [](const std::string& warning) { log(LogLevel::kWarning, warning); };
  set_storing_options(storing, ingest);
  new (self) OpenWriter(unlocked([&] { return SampleWriter::open(options); }), ingest.max_pixels);
}

}  // namespace

void bind_ingest(nb::module_& module) {
  module.def("draw", draw, nb::arg("names"), nb::arg("classes"), nb::arg("limit"), nb::arg("split"),
             nb::arg("seed"));
  module.def("ingest", run_ingest, nb::kw_only(), nb::arg("sources"), nb::arg("destination"), nb::arg("list"),
             nb::arg("manifest"), nb::arg("label"), nb::arg("field"), nb::arg("labels"), nb::arg("images"),
             nb::arg("classes_from"), nb::arg("limit"), nb::arg("split"), nb::arg("group"), nb::arg("folds"),
             nb::arg("part"), nb::arg("dedup"), nb::arg("no_splits"), nb::arg("length"), nb::arg("seed"),
             nb::arg("window"), nb::arg("storing"), nb::arg("progress").none());
  module.def("boxes_of_xywh", boxes_of_xywh);
  nb::class_<OpenWriter>(module, "Writer")
      .def("__init__", open_writer, nb::kw_only(), nb::arg("destination"), nb::arg("fields"),
           nb::arg("classes"), nb::arg("source"), nb::arg("interrupted"), nb::arg("storing"))
      .def("write", write_sample, nb::arg("values"), nb::arg("split"), nb::arg("kinds"))
      .def("finish", [](OpenWriter& self) { return answer_of(self.finish()); })
      .def("close", &OpenWriter::close)
      .def_prop_ro("position", &OpenWriter::position)
      .def_prop_ro("is_forked", &OpenWriter::is_forked);
}

}  // namespace dlpipe::python
