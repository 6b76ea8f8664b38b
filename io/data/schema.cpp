#include "io/data/schema.h"

#include <xxhash.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"

namespace dlpipe::data {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<FieldKind, std::string_view>, 10> kKinds = {{{FieldKind::kImage, "image"},
                                                                            {FieldKind::kTensor, "tensor"},
                                                                            {FieldKind::kTokens, "tokens"},
                                                                            {FieldKind::kAudio, "audio"},
                                                                            {FieldKind::kBytes, "bytes"},
                                                                            {FieldKind::kLabel, "label"},
                                                                            {FieldKind::kLabels, "labels"},
                                                                            {FieldKind::kBoxes, "boxes"},
                                                                            {FieldKind::kPoints, "points"},
                                                                            {FieldKind::kMask, "mask"}}};

Json fields_json(const std::vector<Field>& fields) {
  Json all = Json::array();
  for (const Field& field : fields) {
    Json one;
    one["name"] = field.name;
    one["kind"] = field_kind_name(field.kind);
    one["dtype"] = dtype_name(field.dtype);
    one["shape"] = std::vector<int64_t>(field.shape.begin(), field.shape.end());
    if (!field.of.empty()) one["of"] = field.of;
    all.push_back(std::move(one));
  }
  return all;
}

// Class names are bytes of file names: bytes that are not UTF-8 are replaced, so that any reader accepts the JSON.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status malformed(std::string_view what) {
  return Status(ErrorCode::kCorrupt,
                concat("[dataset] the description is malformed: ", what, "; ingest the dataset again"));
}

Result<Field> parse_field(const Json& json) {
  Field field;
  field.name = json.at("name").get<std::string>();
  DLPIPE_ASSIGN_OR_RETURN(field.kind, parse_field_kind(json.at("kind").get<std::string>()));
  DLPIPE_ASSIGN_OR_RETURN(field.dtype, parse_dtype(json.at("dtype").get<std::string>()));
  const auto dims = json.at("shape").get<std::vector<int64_t>>();
  if (dims.size() > Shape::kMaxRank) return malformed("a field has too many dimensions");
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 1 || dim > (int64_t{1} << 32) || elements > (int64_t{1} << 32) / dim)
      return malformed("a field has an invalid shape");
    elements *= dim;
  }
  field.shape = Shape(std::span<const int64_t>(dims));
  if (json.contains("of")) field.of = json.at("of").get<std::string>();
  return field;
}

Result<DatasetInfo> parse(const Json& json) {
  if (json.at("format").get<std::string>() != "dlpipe-dataset") return malformed("unknown format name");
  DatasetInfo info;
  info.version = json.at("version").get<int>();
  if (info.version < 1 || info.version > kFormatVersion) {
    return Status(ErrorCode::kUnsupported,
                  concat("[dataset] format version ", info.version, "; this program reads versions 1 to ",
                         kFormatVersion, "; use the program that wrote it or ingest again"));
  }
  info.samples = json.at("samples").get<int64_t>();
  if (info.samples < 0) return malformed("negative sample count");
  for (const Json& field : json.at("fields")) {
    DLPIPE_ASSIGN_OR_RETURN(Field parsed, parse_field(field));
    info.schema.fields.push_back(std::move(parsed));
  }
  if (info.schema.fields.empty() || info.schema.fields.size() > kMostFields)
    return malformed("number of fields");
  if (const Status forms = check_forms(info.schema.fields); !forms.ok()) return malformed(forms.message());
  info.schema.classes = json.at("classes").get<std::vector<std::string>>();
  info.class_counts = json.at("class_counts").get<std::vector<int64_t>>();
  if (info.class_counts.size() != info.schema.classes.size()) return malformed("classes and their counts");
  info.schema.records_per_value = json.at("records_per_value").get<int64_t>();
  if (info.schema.records_per_value < 1 || info.schema.records_per_value > (1 << 20))
    return malformed("records_per_value");
  const auto compression = json.at("compression").get<std::string>();
  if (compression != "none" && compression != "zstd") return malformed("unknown compression");
  info.schema.zstd = compression == "zstd";
  if (json.contains("links")) {
    info.schema.links = json.at("links").get<std::string>();
    const bool has_image = std::any_of(info.schema.fields.begin(), info.schema.fields.end(),
                                       [](const Field& field) { return field.kind == FieldKind::kImage; });
    if (info.schema.zstd || !has_image) return malformed("links");
  }
  if (json.contains("checksums")) {
    if (json.at("checksums").get<std::string>() != "late" || !info.schema.links)
      return malformed("checksums");
    info.schema.late_checksums = true;
  }
  const Json& stats = json.at("pixel_stats");
  const auto mean = stats.at("mean").get<std::vector<double>>();
  const auto std = stats.at("std").get<std::vector<double>>();
  if (mean.size() != std.size() || mean.size() > info.pixel_stats.mean.size())
    return malformed("pixel statistics");
  info.pixel_stats.channels = static_cast<int>(mean.size());
  std::copy(mean.begin(), mean.end(), info.pixel_stats.mean.begin());
  std::copy(std.begin(), std.end(), info.pixel_stats.std.begin());
  info.id = json.at("id").get<std::string>();
  if (json.contains("skipped")) {
    const Json& skipped = json.at("skipped");
    SkippedSum sum{skipped.at("files").get<uint64_t>(), 0};
    const auto hash = skipped.at("checksum").get<std::string>();
    if (hash.size() != 16 ||
        std::from_chars(hash.data(), hash.data() + 16, sum.hash, 16).ptr != hash.data() + 16)
      return malformed("the checksum of the list of skipped files");
    info.skipped = sum;
  }
  return info;
}

/// The last member of a description: the checksum of all text before it.
std::string checksum_member(std::string_view before) {
  return concat(",\"text_checksum\":\"", hex64(checksum64(std::as_bytes(std::span(before)))), "\"}");
}

bool ends_with_checksum(std::string_view json) {
  const size_t size = checksum_member({}).size();
  return json.size() > size &&
         json.substr(json.size() - size) == checksum_member(json.substr(0, json.size() - size));
}

}  // namespace

std::string_view field_kind_name(FieldKind kind) {
  for (const auto& [value, name] : kKinds) {
    if (value == kind) return name;
  }
  return "unknown";
}

Result<FieldKind> parse_field_kind(std::string_view name) {
  for (const auto& [value, kind_name] : kKinds) {
    if (kind_name == name) return value;
  }
  return Status(ErrorCode::kCorrupt, concat("[dataset] unknown field kind '", name, "'"));
}

std::optional<size_t> fixed_field_bytes(const Field& field) {
  if (field.kind == FieldKind::kLabel) return sizeof(int64_t);
  if (field.kind == FieldKind::kTensor && field.shape.rank() > 0)
    return static_cast<size_t>(field.shape.elements()) * dtype_size(field.dtype);
  return std::nullopt;
}

std::optional<size_t> field_row_bytes(const Field& field) {
  if (field.kind == FieldKind::kLabels) return sizeof(int64_t);
  const bool has_rows = field.kind == FieldKind::kBoxes || field.kind == FieldKind::kPoints ||
                        (field.kind == FieldKind::kTensor && field.shape.rank() == 0);
  if (!has_rows) return std::nullopt;
  return static_cast<size_t>(field.shape.elements()) * dtype_size(field.dtype);
}

Status check_forms(std::span<const Field> fields) {
  for (const Field& field : fields) {
    const auto wrong = [&](std::string_view what) {
      return Status(ErrorCode::kCorrupt, concat("field '", field.name, "' ", what));
    };
    const int rank = field.shape.rank();
    const bool is_boxes = field.dtype == DType::kF32 && field.shape == Shape{4};
    if (field.kind == FieldKind::kBoxes && !is_boxes) return wrong("holds boxes that are not f32 [4]");
    const bool is_points =
        field.dtype == DType::kF32 && (rank == 1 || rank == 2) && field.shape[rank - 1] == 3;
    if (field.kind == FieldKind::kPoints && !is_points)
      return wrong("holds points that are not f32 [3] or [k, 3]");
    if (field.kind == FieldKind::kMask && (field.dtype != DType::kU8 || rank != 0))
      return wrong("is a mask that is not u8 without a shape");
    if (field.of.empty()) continue;
    const auto boxes = std::find_if(fields.begin(), fields.end(), [&](const Field& one) {
      return one.name == field.of && one.kind == FieldKind::kBoxes && one.of.empty();
    });
    const bool fits = boxes != fields.end() && field.kind != FieldKind::kBoxes && field_row_bytes(field);
    if (!fits)
      return wrong(concat("belongs to '", field.of,
                          "'; labels, points and ragged tensors belong to a field of boxes"));
  }
  return {};
}

/// Checks every number of a field of rows.
static Status check_rows(const Field& field, std::span<const std::byte> value, int64_t classes) {
  const auto wrong = [&](std::string_view what) {
    return Status(ErrorCode::kCorrupt, concat("field '", field.name, "' holds ", what));
  };
  if (value.size() % *field_row_bytes(field) != 0) return wrong("a partial row");
  for (size_t at = 0; field.dtype == DType::kF32 && at < value.size(); at += sizeof(float)) {
    if (!std::isfinite(load_le<float>(value, at))) return wrong("NaN or infinity");
  }
  for (size_t at = 0; field.kind == FieldKind::kBoxes && at < value.size(); at += 4 * sizeof(float)) {
    const auto number = [&](size_t i) { return load_le<float>(value, at + i * sizeof(float)); };
    if (number(2) < number(0) || number(3) < number(1))
      return wrong(concat("box ", at / (4 * sizeof(float)) + 1, ", which ends before it begins"));
  }
  for (size_t at = 0; field.kind == FieldKind::kLabels && at < value.size(); at += sizeof(int64_t)) {
    const auto label = load_le<int64_t>(value, at);
    if (label < 0 || (classes >= 0 && label >= classes))
      return wrong(classes < 0 ? concat("label ", label)
                               : concat("label ", label, " of ", counted(classes, "class", "classes")));
  }
  return {};
}

Status check_values(std::span<const Field> fields, std::span<const std::span<const std::byte>> values,
                    int64_t classes) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    const std::optional<size_t> row = field_row_bytes(field);
    if (!row) continue;
    DLPIPE_RETURN_IF_ERROR(check_rows(field, values[i], classes));
    if (field.of.empty()) continue;
    const auto boxes =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == field.of; });
    const size_t rows = values[i].size() / *row;
    const size_t wanted =
        values[static_cast<size_t>(boxes - fields.begin())].size() / *field_row_bytes(*boxes);
    if (rows != wanted) {
      return Status(ErrorCode::kCorrupt,
                    concat("field '", field.name, "' has ", counted(rows, "row"), " for ",
                           counted(wanted, "box", "boxes"), " of field '", field.of, "'"));
    }
  }
  return {};
}

int version_for(const Schema& schema, ImageLayout newest) {
  if (schema.late_checksums) return 6;
  if (schema.links) return 5;
  const bool has_rows_of = std::any_of(schema.fields.begin(), schema.fields.end(), [](const Field& field) {
    return !field.of.empty() || field.kind == FieldKind::kMask ||
           (field.kind == FieldKind::kPoints && field.shape.rank() > 1);
  });
  if (has_rows_of) return 4;
  const bool has_rows = std::any_of(schema.fields.begin(), schema.fields.end(), [](const Field& field) {
    return field.kind == FieldKind::kBoxes || field.kind == FieldKind::kPoints;
  });
  return has_rows || newest > ImageLayout::kRestart ? 3 : 2;
}

std::string to_json(const DatasetInfo& info) {
  Json json;
  json["format"] = "dlpipe-dataset";
  json["version"] = info.version;
  json["id"] = info.id;
  json["samples"] = info.samples;
  json["records_per_value"] = info.schema.records_per_value;
  json["compression"] = info.schema.zstd ? "zstd" : "none";
  if (info.schema.links) json["links"] = *info.schema.links;
  if (info.schema.late_checksums) json["checksums"] = "late";
  json["fields"] = fields_json(info.schema.fields);
  json["classes"] = info.schema.classes;
  json["class_counts"] = info.class_counts;
  const PixelStats& stats = info.pixel_stats;
  json["pixel_stats"]["mean"] = std::vector<double>(stats.mean.begin(), stats.mean.begin() + stats.channels);
  json["pixel_stats"]["std"] = std::vector<double>(stats.std.begin(), stats.std.begin() + stats.channels);
  if (!info.skipped) return dump(json);
  json["skipped"] = {{"files", info.skipped->files}, {"checksum", hex64(info.skipped->hash)}};
  std::string text = dump(json);
  text.pop_back();  // the brace
  return text + checksum_member(text);
}

Result<DatasetInfo> parse_dataset_info(std::string_view json) {
  constexpr size_t kMostBytes = size_t{64} << 20;  // a million classes take less
  if (json.size() > kMostBytes) return malformed("it is larger than 64 MB");
  try {
    const Json parsed = Json::parse(json);
    DLPIPE_ASSIGN_OR_RETURN(DatasetInfo info, parse(parsed));
    const bool has_checksum = parsed.contains("skipped") || parsed.contains("text_checksum");
    info.is_whole = !has_checksum || ends_with_checksum(json);
    return info;
  } catch (const Json::exception& error) {
    return malformed(without_area(error.what()));
  }
}

std::string identity_json(const DatasetInfo& info) {
  Json json;
  json["fields"] = fields_json(info.schema.fields);
  json["classes"] = info.schema.classes;
  if (info.version >= 2) json["class_counts"] = info.class_counts;
  if (info.schema.late_checksums) json["checksums"] = "late";
  return dump(json);
}

struct DatasetIdHash::State {
  XXH3_state_t* hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

DatasetIdHash::DatasetIdHash() : state_(std::make_unique<State>()) {
  if (state_->hash == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_->hash);
}
DatasetIdHash::~DatasetIdHash() = default;

void DatasetIdHash::add_rows(std::span<const std::byte> rows) {
  XXH3_64bits_update(state_->hash, rows.data(), rows.size());
}

std::string DatasetIdHash::id(const DatasetInfo& info) {
  if (info.version >= 2) {  // version 1 left the statistics out
    const auto channels = static_cast<size_t>(info.pixel_stats.channels);
    add_rows(std::as_bytes(std::span(info.pixel_stats.mean).first(channels)));
    add_rows(std::as_bytes(std::span(info.pixel_stats.std).first(channels)));
  }
  const std::string identity = identity_json(info);
  return hex64(checksum64(std::as_bytes(std::span(identity)), XXH3_64bits_digest(state_->hash)));
}

}  // namespace dlpipe::data
