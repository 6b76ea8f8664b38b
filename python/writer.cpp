// Datasets of samples that Python code has in its memory.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/io/data/sources/typed_columns.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/paths.h"
#include "dlpipe/python/pictures.h"
#include "dlpipe/python/storing.h"
#include "dlpipe/python/subjects.h"
#include "dlpipe/python/waiting.h"
#include "dlpipe/run/ingest/sample_writer.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using data::Field;
using data::FieldKind;
using ingest::NewSample;
using ingest::SampleWriter;

/// Holds a lock: Python's threads may share a writer. In a forked child it does nothing: what is on disk is the parent's, and
/// the threads that the writer would wait for, or that hold the lock, stayed behind.
class OpenWriter {
 public:
  explicit OpenWriter(std::unique_ptr<SampleWriter> writer) : writer_(std::move(writer)) {}
  ~OpenWriter() {
    close();
    if (is_forked()) (void)writer_.release();
  }

  bool is_forked() const { return ::getpid() != process_; }
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
             ", whose writer this is; write there, or open another dataset's here");
  }

  const pid_t process_ = ::getpid();
  Mutex mutex_;
  std::unique_ptr<SampleWriter> writer_ DLPIPE_POINTEE_GUARDED_BY(mutex_);
};

/// None, bytes of a name, or a number, as dlpipe/fields.py makes them.
NewSample::Label label_of(const nb::handle& value) {
  if (value.is_none()) return {};
  if (PyBytes_Check(value.ptr())) {
    const auto name = nb::cast<nb::bytes>(value);
    return std::string(name.c_str(), name.size());
  }
  return nb::cast<int64_t>(value);
}

/// What stands in a record for `value`, which dlpipe/writer.py made for a field of this kind.
void add_value(const std::string& kind, const nb::handle& value, NewSample& sample) {
  std::vector<std::byte>& bytes = sample.values.emplace_back();
  if (kind == "image" && PyUnicode_Check(value.ptr())) {  // dlpipe/pictures.py's Unreadable
    sample.problem = nb::cast<std::string>(value);
  } else if (kind == "image") {
    bytes = picture_bytes(value);
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
  for (size_t i = 0; i < kinds.size(); ++i) add_value(kinds[i], values[i], sample);
  self.add(std::move(sample));
}

/// Boxes of rows of x, y, width, height.
nb::bytes boxes_of_xywh(const std::string& field, const nb::bytes& rows) {
  std::vector<float> numbers(rows.size() / sizeof(float));
  std::memcpy(numbers.data(), rows.data(), numbers.size() * sizeof(float));
  const Result<std::string> boxes = data::encode_boxes(std::move(numbers), true);
  if (!boxes.ok()) refuse("writer", "field '", printable(field), "': ", boxes.status().message());
  return nb::bytes(boxes->data(), boxes->size());
}

/// (name, kind, dtype, shape, of) each.
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
  new (self) OpenWriter(unlocked([&] { return SampleWriter::open(options); }));
}

}  // namespace

void bind_writer(nb::module_& module) {
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
