// Datasets for Python, with random access to samples.
#include "dlpipe/dataset.h"
#include "base/mutex.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dlpipe/log.h"
#include "io/data/bus_error.h"
#include "io/data/codec/mask.h"
#include "io/data/export.h"
#include "io/data/sample.h"
#include "io/data/schema.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using data::SampleReader;
using Bytes = std::vector<std::byte>;

nb::any array_of(Bytes bytes, DType dtype, std::vector<size_t> shape) {
  const auto memory = std::make_shared<Bytes>(std::move(bytes));
  return make_array(Framework::kNumpy, memory->data(), {dtype, std::move(shape), {}}, memory);
}

/// A sample's own copies, made without the interpreter lock.
struct TakenSample {
  data::RecordHeader header;
  Bytes pixels;
  std::vector<Bytes> fields;
};

class OpenDataset {
 public:
  OpenDataset(std::shared_ptr<const data::Dataset> dataset, int64_t max_pixels)
      : dataset_(std::move(dataset)), max_pixels_(max_pixels) {}

  const data::Dataset& dataset() const { return *dataset_; }

  TakenSample take(int64_t number) const {
    return unlocked([&]() -> Result<TakenSample> {
      DLPIPE_ASSIGN_OR_RETURN(const auto reader, borrow());
      DLPIPE_ASSIGN_OR_RETURN(const SampleReader::Sample sample, reader->read(number));
      TakenSample taken;
      taken.header = sample.header;
      const std::span<const data::Field> fields = dataset_->fields();
      for (size_t i = 0; i < fields.size(); ++i) {
        const auto bytes = sample.view.fields[i];
        const bool is_image = fields[i].kind == data::FieldKind::kImage;
        taken.fields.emplace_back(is_image ? Bytes() : Bytes(bytes.begin(), bytes.end()));
      }
      if (taken.header.layout == data::ImageLayout::kNone) return taken;
      const data::RecordHeader& header = taken.header;
      const ptrdiff_t stride = ptrdiff_t{header.width} * header.channels;
      taken.pixels.resize(static_cast<size_t>(stride) * static_cast<size_t>(header.height));
      DLPIPE_RETURN_IF_ERROR(reader->decode(sample, {reinterpret_cast<uint8_t*>(taken.pixels.data()),
                                                     header.width, header.height, header.channels, stride}));
      return taken;
    });
  }

  Bytes file(int64_t number) const {
    return unlocked([&]() -> Result<Bytes> {
      DLPIPE_ASSIGN_OR_RETURN(const auto reader, borrow());
      DLPIPE_ASSIGN_OR_RETURN(const SampleReader::Sample sample, reader->read(number));
      DLPIPE_ASSIGN_OR_RETURN(SampleReader::File file, reader->file(sample));
      return std::move(file.bytes);
    });
  }

 private:
  /// A reader for this thread alone; it is returned to the pool at the end.
  struct GiveBack {
    const OpenDataset* from;
    void operator()(SampleReader* reader) const {
      const MutexLock lock(from->mutex_);
      from->readers_.emplace_back(reader);
    }
  };
  Result<std::unique_ptr<SampleReader, GiveBack>> borrow() const {
    {
      const MutexLock lock(mutex_);
      if (!readers_.empty()) {
        std::unique_ptr<SampleReader, GiveBack> reader(readers_.back().release(), GiveBack{this});
        readers_.pop_back();
        return reader;
      }
    }
    DLPIPE_ASSIGN_OR_RETURN(auto opened, SampleReader::open(*dataset_, max_pixels_));
    return std::unique_ptr<SampleReader, GiveBack>(opened.release(), GiveBack{this});
  }

  std::shared_ptr<const data::Dataset> dataset_;
  int64_t max_pixels_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<SampleReader>> readers_ DLPIPE_GUARDED_BY(mutex_);
};

nb::object text_of(const Bytes& bytes) {
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(reinterpret_cast<const char*>(bytes.data()),
                                                    static_cast<Py_ssize_t>(bytes.size())));
}

nb::object field_value(const data::Field& field, Bytes bytes) {
  switch (field.kind) {
    case data::FieldKind::kLabel: {
      int64_t label = -1;
      std::memcpy(&label, bytes.data(), sizeof label);
      return nb::int_(label);
    }
    case data::FieldKind::kTensor: {
      std::vector<size_t> shape;
      for (const int64_t side : field.shape) shape.push_back(static_cast<size_t>(side));
      if (shape == std::vector<size_t>{1})  // a number of NumPy's
        return array_of(std::move(bytes), field.dtype, {}).attr("__getitem__")(nb::tuple());
      if (shape.empty()) shape.push_back(bytes.size() / dtype_size(field.dtype));
      return array_of(std::move(bytes), field.dtype, std::move(shape));
    }
    case data::FieldKind::kLabels: {
      const size_t count = bytes.size() / sizeof(int64_t);
      return array_of(std::move(bytes), DType::kI64, {count});
    }
    case data::FieldKind::kBoxes:
    case data::FieldKind::kPoints: {
      std::vector<size_t> shape = {bytes.size() / *data::field_row_bytes(field)};
      for (const int64_t side : field.shape) shape.push_back(static_cast<size_t>(side));
      return array_of(std::move(bytes), DType::kF32, std::move(shape));
    }
    case data::FieldKind::kMask: {
      if (bytes.empty()) return nb::none();
      data::MaskDecoder decoder;
      const ConstImageView mask = value_or_throw(decoder.decode(bytes));
      const auto* const pixels = reinterpret_cast<const std::byte*>(mask.data);
      const auto size = static_cast<size_t>(mask.width) * static_cast<size_t>(mask.height);
      return array_of(Bytes(pixels, pixels + size), DType::kU8,
                      {static_cast<size_t>(mask.height), static_cast<size_t>(mask.width)});
    }
    default:
      return text_of(bytes);
  }
}

nb::tuple sample_values(const OpenDataset& self, int64_t number) {
  TakenSample taken = self.take(number);
  nb::list values;
  const std::span<const data::Field> fields = self.dataset().fields();
  for (const size_t i : data::loop_order(fields)) {
    if (fields[i].kind != data::FieldKind::kImage) {
      values.append(field_value(fields[i], std::move(taken.fields[i])));
    } else if (taken.pixels.empty()) {
      values.append(nb::none());
    } else {
      values.append(array_of(std::move(taken.pixels), DType::kU8,
                             {static_cast<size_t>(taken.header.height),
                              static_cast<size_t>(taken.header.width), taken.header.channels}));
    }
  }
  return nb::tuple(values);
}

template <class Value>
nb::any column(const OpenDataset& self, size_t width, DType dtype, Value value) {
  const auto count = static_cast<size_t>(self.dataset().size());
  const size_t row = width * dtype_size(dtype);
  Bytes bytes = unlocked([&]() -> Result<Bytes> {
    Bytes rows(count * row);
    for (size_t i = 0; i < count; ++i) {
      DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header,
                              self.dataset().header(static_cast<int64_t>(i)));
      const auto cells = value(header);
      std::memcpy(rows.data() + i * row, cells.data(), row);
    }
    return rows;
  });
  std::vector<size_t> shape = {count};
  if (width > 1) shape.push_back(width);
  return array_of(std::move(bytes), dtype, std::move(shape));
}

nb::tuple channel_values(const data::PixelStats& stats, const std::array<double, 4>& values) {
  nb::list list;
  for (size_t c = 0; c < static_cast<size_t>(stats.channels); ++c) list.append(values[c]);
  return nb::tuple(list);
}

nb::list skipped_files(const OpenDataset& self) {
  nb::list list;
  for (const auto& one : unlocked([&] { return self.dataset().skipped(); }))
    list.append(nb::make_tuple(to_text(one.path), to_text(one.reason)));
  return list;
}

nb::dict export_files(const OpenDataset& self, const nb::bytes& directory, int64_t limit,
                      const nb::object& progress) {
  Task task;
  data::ExportOptions options;
  options.directory = to_path(directory);
  options.limit = limit;
  options.stop_requested = [&] { return task.stop_requested().load(); };
  std::function<void(int64_t, int64_t)> on_progress;
  if (!progress.is_none()) {
    on_progress = [&](int64_t done, int64_t total) { task.call([&] { progress(done, total); }); };
  }
  data::ExportReport report;
  task.run([&] { report = value_or_throw(data::export_files(self.dataset(), options, on_progress)); });
  if (const std::string renamed = data::renamed_text(report); !renamed.empty()) {
    log(LogLevel::kWarning, renamed);
    pass_log_on();
  }
  throw_if_error(data::unwritten_error(report));  // the other files were written
  nb::dict dict;
  dict["files"] = report.files;
  dict["rewritten"] = report.rewritten;
  dict["renamed"] = report.renamed.size();
  dict["bytes"] = report.bytes;
  dict["directory"] = to_text(report.directory);
  return dict;
}

/// "" if there is none.
std::string image_field(const data::Dataset& dataset) {
  for (const data::Field& field : dataset.fields()) {
    if (field.kind == data::FieldKind::kImage) return field.name;
  }
  return {};
}

void open_dataset(OpenDataset* self, const nb::bytes& directory, const std::string& split,
                  int64_t max_pixels) {
  const std::string path = to_path(directory);
  data::explain_bus_errors();
  new (self) OpenDataset(unlocked([&] { return data::Dataset::open(path, split); }), max_pixels);
}

}  // namespace

void bind_dataset(nb::module_& module) {
  nb::class_<OpenDataset>(module, "Dataset")
      .def("__init__", open_dataset, nb::arg("directory"), nb::arg("split"), nb::arg("max_pixels"))
      .def("values", sample_values, nb::arg("number"))
      .def("file",
           [](const OpenDataset& self, int64_t number) {
             const Bytes bytes = self.file(number);
             return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
           })
      .def("labels",
           [](const OpenDataset& self) {
             return column(self, 1, DType::kI64,
                           [](const data::RecordHeader& header) { return std::array{header.label}; });
           })
      .def("sizes",
           [](const OpenDataset& self) {
             return column(self, 2, DType::kI32, [](const data::RecordHeader& header) {
               return std::array{header.height, header.width};
             });
           })
      .def("skipped", skipped_files)
      .def("export", export_files, nb::arg("directory"), nb::arg("limit"), nb::arg("progress").none())
      .def_prop_ro("size", [](const OpenDataset& self) { return self.dataset().size(); })
      .def_prop_ro("id", [](const OpenDataset& self) { return self.dataset().id(); })
      .def_prop_ro("directory",
                   [](const OpenDataset& self) {
                     return nb::bytes(self.dataset().directory().data(), self.dataset().directory().size());
                   })
      .def_prop_ro("fields",
                   [](const OpenDataset& self) {
                     nb::list names;
                     const std::span<const data::Field> fields = self.dataset().fields();
                     for (const size_t i : data::loop_order(fields)) names.append(to_text(fields[i].name));
                     return nb::tuple(names);
                   })
      .def_prop_ro("image", [](const OpenDataset& self) { return to_text(image_field(self.dataset())); })
      .def_prop_ro("classes", [](const OpenDataset& self) { return to_texts(self.dataset().classes()); })
      .def_prop_ro("class_counts",
                   [](const OpenDataset& self) {
                     const auto counts = self.dataset().class_counts();
                     return std::vector<int64_t>(counts.begin(), counts.end());
                   })
      .def_prop_ro("mean_std", [](const OpenDataset& self) {
        const data::PixelStats& stats = self.dataset().pixel_stats();
        return nb::make_tuple(channel_values(stats, stats.mean), channel_values(stats, stats.std));
      });
}

}  // namespace dlpipe::python
