#include "dlpipe/io/data/export.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "dlpipe/base/base64.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/mask.h"
#include "dlpipe/io/data/codec/probe.h"
#include "dlpipe/io/data/export_values.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/io/data/sample.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The ending of `path` may stay when it is a picture's and not another layout's.
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

/// A class's name as the class table has it, which is UTF-8, of a folder's bytes.
std::string as_stored(const std::string& name) {
  return Json::parse(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

/// A class's or a field's name as that of one folder, whatever it holds and however long it is.
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

/// Whether a list must say what classes the samples have: folders called as the classes would give other numbers, or
/// none.
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
  Exporter(const Dataset& dataset, SampleReader& reader, const PartialDirectory& root, bool with_list)
      : dataset_(dataset), reader_(reader), root_(root), losses_(dataset.fields()) {
    const std::span<const Field> fields = dataset.fields();
    const auto is_field = [&](const std::string& name) {
      return std::any_of(fields.begin(), fields.end(),
                         [&](const Field& field) { return field.name == name; });
    };
    while (is_field(name_column_)) name_column_ += "_";
    if (with_list) lines_ = first_line();
  }

  /// The bytes written; nothing where no file can have the sample's name.
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
  /// What the files don't hold, as fields.jsonl beside the class folders; nothing where they hold all.
  Status write_fields() const {
    return lines_.empty() ? Status() : root_.write("fields.jsonl", std::as_bytes(std::span(lines_)));
  }
  std::string list_name() const { return lines_.empty() ? "" : "fields.jsonl"; }
  int64_t rewritten() const { return rewritten_; }
  const std::vector<ExportReport::Unwritten>& unwritten() const { return unwritten_; }
  const std::vector<ExportReport::Renamed>& renamed() const { return renamed_; }
  std::vector<std::string> changed() const {
    return lines_.empty() ? std::vector<std::string>() : losses_.texts();
  }

 private:
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

  /// a.png and a.jpg, both re-coded, want one name, and their masks do: the later one gets its number, once more where that is
  /// taken too.
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
  /// Writes a file called `wanted`, or where there can be none of that name, a file called `substitute`. kUnsupported where
  /// there can be none of either.
  Result<Written> write_as(const std::string& wanted, const std::string& substitute, int64_t number,
                           std::span<const std::byte> bytes) {
    const std::string name = not_taken(wanted, number);
    const Status status = root_.write(name, bytes);
    if (status.ok()) return Written{name};
    if (status.code() != ErrorCode::kUnsupported) return status;
    const std::string other = not_taken(substitute, number);
    DLPIPE_RETURN_IF_ERROR(root_.write(other, bytes));
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
  std::unordered_set<std::string> names_;
  int64_t rewritten_ = 0;
  std::vector<ExportReport::Unwritten> unwritten_;
  std::vector<ExportReport::Renamed> renamed_;
  std::string name_column_ = "name";  // of fields.jsonl: what the sample is called where its file isn't
  std::string lines_;                 // of fields.jsonl; empty: there is none
  ListLosses losses_;                 // of these
};

}  // namespace

Result<std::string> export_name(const std::string& path, const std::string& class_name, ImageLayout layout) {
  const auto leaves = [](const std::string& name) {
    const fs::path parts(name);
    return parts.is_absolute() || std::find(parts.begin(), parts.end(), "..") != parts.end();
  };
  const std::string folder = as_folder(class_name);  // without a class the path is all
  if (leaves(path) || leaves(folder) || path.find('\0') != std::string::npos)
    return Status(ErrorCode::kUnsupported,
                  concat("[export] the name '", folder, folder.empty() ? "" : "/", path,
                         "' would leave the output folder; it is not written"));
  const std::string name = with_fitting_ending(path, layout);
  if (folder.empty()) return name;
  const size_t slash = name.find('/');
  const bool below = name.starts_with(folder + "/") ||
                     (slash != std::string::npos && as_stored(name.substr(0, slash)) == folder);
  return below ? name : folder + "/" + name;
}

Result<bool> needs_list(const Dataset& dataset, int64_t limit) {
  const std::span<const Field> fields = dataset.fields();
  if (std::any_of(fields.begin(), fields.end(), is_listed)) return true;
  return needs_class_list(dataset, limit < 0 ? dataset.size() : std::min(limit, dataset.size()));
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
             count == 1 ? ", because no file in it can have its name: "
                        : ", because no files in it can have their names: ",
             quoted_names(names), "; the others are there. Make the dataset again with other names"));
}

std::string renamed_text(const ExportReport& report) {
  const size_t count = report.renamed.size();
  if (count == 0) return {};
  constexpr size_t kShown = 3;
  std::string text = concat("[export] ", human_count(static_cast<int64_t>(count)),
                            count == 1 ? " sample has" : " samples have", " another file name in ",
                            printable(report.directory), ", where there can be no file of ",
                            count == 1 ? "its own: " : "their own: ");
  for (size_t i = 0; i < std::min(count, kShown); ++i)
    text += concat(i > 0 ? ", " : "", in_quotes(report.renamed[i].name), " is ",
                   in_quotes(report.renamed[i].path));
  if (count > kShown) text += concat(" and ", count - kShown, " more");
  return text;
}

Result<ExportReport> export_files(const Dataset& dataset, const ExportOptions& options,
                                  const std::function<void(int64_t, int64_t)>& progress) {
  if (options.limit == 0 || options.limit < -1)
    return misuse("export", "--limit ", options.limit, "; give at least 1");
  std::string directory = options.directory;
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  std::error_code error;
  if (fs::exists(directory, error))
    return misuse("export", directory, " exists already; remove it or choose another");
  DLPIPE_ASSIGN_OR_RETURN(auto partial, PartialDirectory::claim("export", directory));
  DLPIPE_RETURN_IF_ERROR(partial.clear());
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, SampleReader::open(dataset));
  const int64_t total = options.limit < 0 ? dataset.size() : std::min(options.limit, dataset.size());
  DLPIPE_ASSIGN_OR_RETURN(const bool with_list, needs_list(dataset, total));
  Exporter exporter(dataset, *reader, partial, with_list || options.with_list);
  ExportReport report;
  report.directory = directory;
  for (int64_t sample = 0; sample < total; ++sample) {
    auto bytes = exporter.write(sample);
    const bool stopped = options.stop_requested && options.stop_requested();
    if (!bytes.ok() || stopped) {
      const Status removed = partial.remove();
      if (!bytes.ok()) return bytes.status();
      DLPIPE_RETURN_IF_ERROR(removed);
      return Status(ErrorCode::kCancelled,
                    concat("[export] stopped after ", sample + 1, " of ", total, " files"));
    }
    report.bytes += bytes->value_or(0);
    report.files += bytes->has_value() ? 1 : 0;
    if (progress) progress(sample + 1, total);
  }
  report.rewritten = exporter.rewritten();
  report.unwritten = exporter.unwritten();
  report.renamed = exporter.renamed();
  report.list = exporter.list_name();
  report.changed = exporter.changed();
  DLPIPE_RETURN_IF_ERROR(exporter.write_fields());
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return report;
}

}  // namespace dlpipe::data
