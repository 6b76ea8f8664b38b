#include "io/data/export.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <optional>
#include <unordered_set>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/codec/mask.h"
#include "io/data/file_name.h"
#include "io/data/partial_directory.h"
#include "io/data/sample.h"
#include "io/data/schema.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The values in the list that export writes: each as JSON, and which of them ingest can't read back unchanged.

/// For fields with a variable number of values, or of a kind that a list can't express: JSON as a text.
bool is_read_as_text(const Field& field) {
  if (field.kind == FieldKind::kTensor) return field.of.empty() && field.shape.rank() == 0;
  if (field.kind == FieldKind::kPoints) return !field.of.empty() || field.shape.rank() > 1;
  return field.kind == FieldKind::kTokens || field.kind == FieldKind::kAudio;
}

Json number_json(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
      return load_le<float>(bytes, 0);
    case DType::kF64:
      return load_le<double>(bytes, 0);
    case DType::kI32:
      return load_le<int32_t>(bytes, 0);
    case DType::kI64:
      return load_le<int64_t>(bytes, 0);
    case DType::kU8:
      return load_u8(bytes, 0);
    case DType::kF16:
      return static_cast<float>(std::bit_cast<Float16>(load_le<uint16_t>(bytes, 0)));
    case DType::kBF16:
      return static_cast<float>(std::bit_cast<BFloat16>(load_le<uint16_t>(bytes, 0)));
  }
  return nullptr;
}

/// Whether the field's column states the dtype; numbers of other fields become f32.
bool has_dtype(const Field& field) {
  return field.kind == FieldKind::kTensor && field.of.empty() && field.shape.rank() > 0 &&
         field.dtype != DType::kF32;
}

/// Whether a number survives as an f32.
bool is_exact(const Json& number) {
  if (number.is_number_integer()) {
    const auto whole = number.get<int64_t>();
    return static_cast<long double>(static_cast<float>(whole)) == static_cast<long double>(whole);
  }
  const auto value = number.get<double>();
  return static_cast<double>(static_cast<float>(value)) == value;
}

std::string in_samples(int64_t count) {
  return concat(" in ", counted(count, "sample"));
}

/// Whether the field is in the list; the others are in the files and the names of samples.
bool is_listed(const Field& field) {
  return field.kind != FieldKind::kImage && field.kind != FieldKind::kLabel && field.name != "path";
}

/// A field's value as written to a list of JSON lines (sources/lists reads it back).
Json value_json(const Field& field, std::span<const std::byte> bytes, std::span<const std::string> classes) {
  Json all = Json::array();
  if (field.kind == FieldKind::kLabels) {
    for (size_t at = 0; at + sizeof(int64_t) <= bytes.size(); at += sizeof(int64_t)) {
      const auto label = load_le<int64_t>(bytes, at);
      const bool known = label >= 0 && label < static_cast<int64_t>(classes.size());
      all.push_back(known ? Json(classes[static_cast<size_t>(label)]) : Json(label));
    }
    return all;
  }
  if (field.kind == FieldKind::kBytes)
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t size = dtype_size(field.dtype);
  const size_t row = field_row_bytes(field) ? static_cast<size_t>(field.shape.elements()) : 0;
  for (size_t i = 0; i < bytes.size() / size; ++i) {
    const Json number = number_json(field.dtype, bytes.subspan(i * size, size));
    if (row != 0 && i % row == 0) all.push_back(Json::array());
    (row != 0 ? all.back() : all).push_back(number);
  }
  return all;
}

/// The --field option that reads back what `value_json` writes for the field.
std::string column_of(const Field& field) {
  if (is_read_as_text(field)) return concat(field.name, ":text");
  const char* kind = "text";
  if (field.kind == FieldKind::kLabels) kind = "labels";
  if (field.kind == FieldKind::kBoxes) kind = "boxes";
  if (field.kind == FieldKind::kPoints) kind = "points";
  if (field.kind == FieldKind::kMask) kind = "mask";
  if (field.kind == FieldKind::kTensor)
    kind = field.of.empty() && field.shape.elements() == 1 ? "number" : "numbers";
  if (has_dtype(field)) return concat(field.name, ":", kind, ":", dtype_name(field.dtype));
  return concat(field.name, ":", kind, field.of.empty() ? "" : ":", field.of);
}

/// Counts the samples whose values change when the list is read back: texts that are not UTF-8, numbers that an
/// f32 rounds, NaN and infinity.
class ListLosses {
 public:
  explicit ListLosses(std::span<const Field> fields) : fields_(fields), counts_(fields.size()) {}
  void see(size_t field, std::span<const std::byte> bytes);
  /// "'id' as f32, not i64, rounded in 2 samples" for each field that changes when it is read back.
  std::vector<std::string> texts() const;

 private:
  struct Counts {
    int64_t rounded = 0;
    int64_t no_number = 0;
    int64_t no_utf8 = 0;
  };
  std::span<const Field> fields_;
  std::vector<Counts> counts_;
};

void ListLosses::see(size_t index, std::span<const std::byte> bytes) {
  const Field& field = fields_[index];
  Counts& counts = counts_[index];
  if (field.kind == FieldKind::kBytes &&
      !is_utf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
    ++counts.no_utf8;
  if (field.kind != FieldKind::kTensor || is_read_as_text(field)) return;
  bool is_rounded = false, is_no_number = false;
  const size_t size = dtype_size(field.dtype);
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    const Json number = number_json(field.dtype, bytes.subspan(at, size));
    const bool is_finite = std::isfinite(number.get<double>());
    is_no_number = is_no_number || !is_finite;
    is_rounded = is_rounded || (is_finite && !has_dtype(field) && !is_exact(number));
  }
  counts.rounded += is_rounded ? 1 : 0;
  counts.no_number += is_no_number ? 1 : 0;
}

std::vector<std::string> ListLosses::texts() const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field& field = fields_[i];
    if (!is_listed(field)) continue;
    const Counts& counts = counts_[i];
    std::vector<std::string> what;
    const bool is_tensor = field.kind == FieldKind::kTensor && !is_read_as_text(field);
    if (is_read_as_text(field)) what.push_back("as text");
    if (is_tensor && field.dtype != DType::kF32 && !has_dtype(field))
      what.push_back(concat("as f32, not ", dtype_name(field.dtype)));
    if (is_tensor && field.shape.rank() > 1) what.push_back(concat("as [", field.shape.elements(), "]"));
    if (counts.rounded > 0) what.push_back(concat("rounded", in_samples(counts.rounded)));
    if (counts.no_number > 0)
      what.push_back(concat("not at all", in_samples(counts.no_number), " that hold NaN or infinity"));
    if (counts.no_utf8 > 0)
      what.push_back(concat("without the bytes that are not UTF-8", in_samples(counts.no_utf8)));
    std::string text;
    for (const std::string& one : what) text += concat(text.empty() ? "" : ", ", one);
    if (!text.empty()) texts.push_back(concat(in_quotes(field.name), " ", text));
  }
  return texts;
}

// The files.

// `path` with an extension that fits the layout. Replaces an image's extension that doesn't fit, and keeps all others.
std::string with_fitting_ending(const std::string& path, ImageLayout layout) {
  const std::string ending = lower_ending(path);
  const bool has_jpeg = ending == "jpg" || ending == "jpeg" || ending == "jpe" || ending == "jfif";
  const bool is_jpeg =
      layout == ImageLayout::kJpeg || layout == ImageLayout::kCoefficients || layout == ImageLayout::kRestart;
  const bool is_pnm = layout == ImageLayout::kPnm;
  const bool has_pnm = ending == "ppm" || ending == "pgm" || ending == "pbm" || ending == "pnm";
  const char* wanted = is_jpeg                        ? "jpg"
                       : layout == ImageLayout::kWebp ? "webp"
                       : layout == ImageLayout::kBmp  ? "bmp"
                       : is_pnm                       ? "pnm"
                                                      : "png";
  if (is_jpeg ? has_jpeg : is_pnm ? has_pnm : ending == wanted) return path;
  return has_image_name(path) ? fs::path(path).replace_extension(wanted).string() : concat(path, ".", wanted);
}

/// The name of a class in the class table, which is UTF-8, made from a folder's bytes.
std::string as_stored(const std::string& name) {
  return Json::parse(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

/// A class's or a field's name as the name of one folder, whatever characters it contains and however long it is.
std::string as_folder(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  std::replace(name.begin(), name.end(), '\0', '_');
  constexpr size_t kMost = 255;  // NAME_MAX
  size_t end = 0;
  while (end < name.size()) {
    const size_t next = end + std::max<size_t>(utf8_bytes(name, end), 1);
    if (next > kMost) break;
    end = next;
  }
  name.resize(end);
  return name;
}

/// Whether a list must name the samples' classes: from folders with the names of the classes, ingest would make other numbers or
/// no classes.
Result<bool> needs_class_list(const Dataset& dataset, int64_t total) {
  const std::span<const std::string> classes = dataset.classes();
  if (!std::is_sorted(classes.begin(), classes.end()))
    return true;  // folders are classes in the order of their bytes
  std::vector<bool> is_there(classes.size());
  for (int64_t sample = 0; sample < total; ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset.header(sample));
    if (header.label < 0) return true;
    if (static_cast<size_t>(header.label) < classes.size())
      is_there[static_cast<size_t>(header.label)] = true;
  }
  return std::find(is_there.begin(), is_there.end(), false) != is_there.end() ||
         std::any_of(classes.begin(), classes.end(),
                     [](const std::string& name) { return as_folder(name) != name; });
}

class Exporter {
 public:
  Exporter(const Dataset& dataset, SampleReader& reader, const PartialDirectory& root, std::string folder,
           bool with_list)
      : dataset_(dataset),
        reader_(reader),
        root_(root),
        folder_(std::move(folder)),
        losses_(dataset.fields()) {
    const std::span<const Field> fields = dataset.fields();
    const auto is_field = [&](const std::string& name) {
      return std::any_of(fields.begin(), fields.end(),
                         [&](const Field& field) { return field.name == name; });
    };
    while (is_field(name_column_)) name_column_ += "_";
    if (with_list) lines_ = first_line();
  }

  /// The number of bytes written; nullopt if no file can have the sample's name.
  Result<std::optional<uint64_t>> write(int64_t number) {
    DLPIPE_ASSIGN_OR_RETURN(const SampleReader::Sample sample, reader_.read(number));
    const std::string path = path_of(sample);
    const auto wanted = file_name(sample, path);
    if (wanted.status().code() == ErrorCode::kUnsupported) return leave_out(number, path);
    DLPIPE_RETURN_IF_ERROR(wanted.status());
    DLPIPE_ASSIGN_OR_RETURN(const std::string substitute, file_name(sample, plain_name(number)));
    DLPIPE_ASSIGN_OR_RETURN(const SampleReader::File file, reader_.file(sample));
    const auto written = write_as(*wanted, substitute, number, file.bytes);
    if (written.status().code() == ErrorCode::kUnsupported) return leave_out(number, path);
    DLPIPE_RETURN_IF_ERROR(written.status());
    if (written->is_substitute) renamed_.push_back({number, path, written->name});
    rewritten_ += file.is_rewritten ? 1 : 0;
    DLPIPE_RETURN_IF_ERROR(list_fields(written->name, path, sample));
    return std::optional<uint64_t>(file.bytes.size());
  }
  /// Writes what is not in the files as fields.jsonl next to the class folders; nothing if the files hold everything.
  Status write_fields() const {
    return lines_.empty() ? Status() : put("fields.jsonl", std::as_bytes(std::span(lines_)));
  }
  std::string list_name() const { return lines_.empty() ? "" : "fields.jsonl"; }
  int64_t rewritten() const { return rewritten_; }
  const std::vector<ExportReport::Unwritten>& unwritten() const { return unwritten_; }
  const std::vector<ExportReport::Renamed>& renamed() const { return renamed_; }
  std::vector<std::string> changed() const {
    return lines_.empty() ? std::vector<std::string>() : losses_.texts();
  }

 private:
  Status put(const std::string& name, std::span<const std::byte> bytes) const {
    return root_.write(folder_.empty() ? name : concat(folder_, "/", name), bytes);
  }
  static std::string plain_name(int64_t number) { return concat("sample-", number); }

  std::optional<uint64_t> leave_out(int64_t number, const std::string& path) {
    unwritten_.push_back({number, path});
    return std::nullopt;
  }

  std::string path_of(const SampleReader::Sample& sample) const {
    std::string path = plain_name(sample.number);
    const std::span<const Field> fields = dataset_.fields();
    const auto field =
        std::find_if(fields.begin(), fields.end(), [](const Field& one) { return one.name == "path"; });
    if (field != fields.end()) {
      const auto bytes = sample.view.fields[static_cast<size_t>(field - fields.begin())];
      if (!bytes.empty()) path.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return path;
  }

  Result<std::string> file_name(const SampleReader::Sample& sample, const std::string& path) {
    const RecordHeader& header = sample.header;
    const bool known = header.label >= 0 && header.label < static_cast<int64_t>(dataset_.classes().size());
    const std::string class_name = known               ? dataset_.classes()[static_cast<size_t>(header.label)]
                                   : header.label >= 0 ? concat("label-", header.label)
                                                       : std::string();
    return export_name(path, class_name, header.layout);
  }

  /// a.png and a.jpg, both re-coded, would get the same name, and so would their masks: the later one gets its number appended,
  /// again if that name is used too.
  std::string not_taken(std::string name, int64_t number) {
    while (!names_.insert(name).second) {
      const fs::path taken(name);
      name = (taken.parent_path() / concat(taken.stem().string(), "-", number, taken.extension().string()))
                 .string();
    }
    return name;
  }

  struct Written {
    std::string name;
    bool is_substitute = false;
  };
  /// Writes a file called `wanted` or, if that name is impossible, `substitute`. kUnsupported if both are impossible.
  Result<Written> write_as(const std::string& wanted, const std::string& substitute, int64_t number,
                           std::span<const std::byte> bytes) {
    const std::string name = not_taken(wanted, number);
    const Status status = put(name, bytes);
    if (status.ok()) return Written{name};
    if (status.code() != ErrorCode::kUnsupported) return status;
    const std::string other = not_taken(substitute, number);
    DLPIPE_RETURN_IF_ERROR(put(other, bytes));
    return Written{other, true};
  }

  /// Masks become files of their own: masks/FIELD/NAME.png.
  Result<std::string> write_mask(const std::string& name, int64_t number, const Field& field,
                                 std::span<const std::byte> mask) {
    if (mask.empty()) return std::string();
    std::string folder = as_folder(field.name);
    if (folder == "." || folder == "..") folder = "_";
    const std::string file = concat("masks/", folder, "/", fs::path(name).replace_extension(".png").string());
    const std::string substitute = concat("masks/", folder, "/", plain_name(number), ".png");
    std::vector<std::byte> png;
    if (sniff_layout(mask) == ImageLayout::kRaw) {
      MaskDecoder decoder;
      DLPIPE_ASSIGN_OR_RETURN(const ConstImageView pixels, decoder.decode(mask));
      DLPIPE_ASSIGN_OR_RETURN(png, encode_png(pixels));
      mask = png;
    }
    DLPIPE_ASSIGN_OR_RETURN(const Written written, write_as(file, substitute, number, mask));
    return written.name;
  }

  std::string first_line() const {
    Json line = {{"fields", Json::array()}};
    for (const Field& field : dataset_.fields()) {
      if (is_listed(field)) line["fields"].push_back(column_of(field));
    }
    if (!dataset_.classes().empty()) line["classes"] = dataset_.classes();
    line["names"] = name_column_;
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  Status list_fields(const std::string& name, const std::string& path, const SampleReader::Sample& sample) {
    if (lines_.empty()) return {};
    const std::span<const Field> fields = dataset_.fields();
    Json line = {{"path", name}};
    if (!is_utf8(name)) line["path_bytes"] = to_base64(name);
    if (name != path) line[name_column_] = path;
    const int64_t label = sample.header.label;
    if (label >= 0 && label < static_cast<int64_t>(dataset_.classes().size()))
      line["label"] = dataset_.classes()[static_cast<size_t>(label)];
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].kind == FieldKind::kMask) {
        DLPIPE_ASSIGN_OR_RETURN(line[fields[i].name],
                                write_mask(name, sample.number, fields[i], sample.view.fields[i]));
      } else if (is_listed(fields[i])) {
        losses_.see(i, sample.view.fields[i]);
        line[fields[i].name] = value_json(fields[i], sample.view.fields[i], dataset_.classes());
      }
    }
    lines_ += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    return {};
  }

  const Dataset& dataset_;
  SampleReader& reader_;
  const PartialDirectory& root_;
  std::string folder_;  // in the root; "": the root itself
  std::unordered_set<std::string> names_;
  int64_t rewritten_ = 0;
  std::vector<ExportReport::Unwritten> unwritten_;
  std::vector<ExportReport::Renamed> renamed_;
  std::string name_column_ = "name";  // of fields.jsonl: for samples' names that differ from their files'
  std::string lines_;                 // of fields.jsonl; empty: there is none
  ListLosses losses_;                 // of these
};

}  // namespace

Result<std::string> export_name(const std::string& path, const std::string& class_name, ImageLayout layout) {
  const auto leaves = [](const std::string& name) {
    const fs::path parts(name);
    return parts.is_absolute() || std::find(parts.begin(), parts.end(), "..") != parts.end();
  };
  const std::string folder = as_folder(class_name);  // empty without a class
  if (leaves(path) || leaves(folder) || path.find('\0') != std::string::npos)
    return Status(ErrorCode::kUnsupported,
                  concat("[export] the name '", folder, folder.empty() ? "" : "/", path,
                         "' would be outside the output folder, so it is not written"));
  const std::string name = with_fitting_ending(path, layout);
  if (folder.empty()) return name;
  const size_t slash = name.find('/');
  const bool below = name.starts_with(folder + "/") ||
                     (slash != std::string::npos && as_stored(name.substr(0, slash)) == folder);
  return below ? name : folder + "/" + name;
}

Status unwritten_error(const ExportReport& report) {
  const size_t count = report.unwritten.size();
  if (count == 0) return {};
  std::vector<std::string> names;
  for (const ExportReport::Unwritten& one : report.unwritten) names.push_back(one.path);
  return Status(
      ErrorCode::kUnsupported,
      concat("[export] ", count, " of ", report.files + static_cast<int64_t>(count),
             count == 1 ? " samples is" : " samples are", " not in ", printable(report.directory),
             count == 1 ? ", because its name is not valid there: "
                        : ", because their names are not valid there: ",
             quoted_names(names), "; the others were written. Make the dataset again with other names"));
}

std::string renamed_text(const ExportReport& report) {
  const size_t count = report.renamed.size();
  if (count == 0) return {};
  constexpr size_t kShown = 3;
  std::string text = concat("[export] ", counted(static_cast<int64_t>(count), "sample was", "samples were"),
                            " renamed in ", printable(report.directory), ", where a file can't have ",
                            count == 1 ? "its own: " : "their own: ");
  for (size_t i = 0; i < std::min(count, kShown); ++i)
    text += concat(i > 0 ? ", " : "", in_quotes(report.renamed[i].name), " is ",
                   in_quotes(report.renamed[i].path));
  if (count > kShown) text += concat(" and ", count - kShown, " more");
  return text;
}

namespace {

/// How many samples of the dataset are exported.
int64_t total_of(const Dataset& dataset, const ExportOptions& options) {
  return options.limit < 0 ? dataset.size() : std::min(options.limit, dataset.size());
}

/// Whether class folders can't express everything about the first `total` samples.
Result<bool> needs_list(const Dataset& dataset, int64_t total) {
  const std::span<const Field> fields = dataset.fields();
  if (std::any_of(fields.begin(), fields.end(), is_listed)) return true;
  return needs_class_list(dataset, total);
}

/// `progress`: after each sample.
Result<ExportReport> write_samples(const ExportSplit& split, const ExportOptions& options,
                                   const PartialDirectory& partial, bool with_list,
                                   const std::function<void()>& progress) {
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, SampleReader::open(*split.dataset));
  const int64_t total = total_of(*split.dataset, options);
  Exporter exporter(*split.dataset, *reader, partial, split.name, with_list);
  ExportReport report;
  for (int64_t sample = 0; sample < total; ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes, exporter.write(sample));
    if (options.stop_requested && options.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[export] stopped after ", sample + 1, " of ", counted(total, "file"),
                           split.name.empty() ? "" : concat(" of ", split.name)));
    report.bytes += bytes.value_or(0);
    report.files += bytes.has_value() ? 1 : 0;
    progress();
  }
  report.rewritten = exporter.rewritten();
  report.unwritten = exporter.unwritten();
  report.renamed = exporter.renamed();
  report.list = exporter.list_name();
  report.changed = exporter.changed();
  DLPIPE_RETURN_IF_ERROR(exporter.write_fields());
  return report;
}

/// Fills the directory, which the caller publishes or removes.
Result<std::vector<ExportReport>> write_splits(std::span<const ExportSplit> splits,
                                               const ExportOptions& options, const std::string& directory,
                                               const PartialDirectory& partial,
                                               const std::function<void(int64_t, int64_t)>& progress) {
  int64_t done = 0, total = 0;
  bool with_list = false;
  for (const ExportSplit& split : splits) {
    const int64_t samples = total_of(*split.dataset, options);
    DLPIPE_ASSIGN_OR_RETURN(const bool needed, needs_list(*split.dataset, samples));
    with_list = with_list || needed;
    total += samples;
  }
  std::vector<ExportReport> reports;
  for (const ExportSplit& split : splits) {
    const auto count = [&] {
      if (progress) progress(++done, total);
    };
    DLPIPE_ASSIGN_OR_RETURN(ExportReport report, write_samples(split, options, partial, with_list, count));
    report.directory = split.name.empty() ? directory : concat(directory, "/", split.name);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

Result<std::vector<ExportReport>> export_splits(std::span<const ExportSplit> splits,
                                                const ExportOptions& options,
                                                const std::function<void(int64_t, int64_t)>& progress) {
  if (options.limit == 0 || options.limit < -1)
    return misuse("export", "--limit ", options.limit, "; use 1 or more");
  std::string directory = options.directory;
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  std::error_code error;
  if (fs::exists(directory, error))
    return misuse("export", directory, " exists already; remove it or choose another");
  DLPIPE_ASSIGN_OR_RETURN(auto partial, PartialDirectory::claim("export", directory));
  DLPIPE_RETURN_IF_ERROR(partial.clear());
  auto reports = write_splits(splits, options, directory, partial, progress);
  if (!reports.ok()) {
    const Status removed = partial.remove();
    return reports.status().code() == ErrorCode::kCancelled && !removed.ok() ? removed : reports.status();
  }
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return reports;
}

Result<ExportReport> export_files(const Dataset& dataset, const ExportOptions& options,
                                  const std::function<void(int64_t, int64_t)>& progress) {
  const ExportSplit all{"", {std::shared_ptr<const Dataset>(), &dataset}};  // owns nothing
  DLPIPE_ASSIGN_OR_RETURN(std::vector<ExportReport> reports, export_splits({&all, 1}, options, progress));
  return std::move(reports.front());
}

}  // namespace dlpipe::data
