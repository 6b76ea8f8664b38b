#include "dlpipe/io/data/export_values.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

using Json = nlohmann::ordered_json;

namespace {

/// Of any number of values in each sample, which a list can't say, or of a kind that it has no word for: JSON as a text.
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

/// Whether its column says the dtype; others become f32.
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
  return concat(" in ", human_count(count), count == 1 ? " sample" : " samples");
}

}  // namespace

bool is_listed(const Field& field) {
  return field.kind != FieldKind::kImage && field.kind != FieldKind::kLabel && field.name != "path";
}

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
      what.push_back(concat("without the bytes that are no UTF-8", in_samples(counts.no_utf8)));
    std::string text;
    for (const std::string& one : what) text += concat(text.empty() ? "" : ", ", one);
    if (!text.empty()) texts.push_back(concat(in_quotes(field.name), " ", text));
  }
  return texts;
}

}  // namespace dlpipe::data
