#include "io/data/sources/typed_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

struct KindName {
  ColumnKind kind;
  std::string_view name;
  std::string_view help;
};

constexpr std::array<KindName, 8> kColumnKinds = {{
    {ColumnKind::kText, "text", "unchanged"},
    {ColumnKind::kNumber, "number",
     "one number, a target of regression; f32, or number:i64, number:f64, ..."},
    {ColumnKind::kNumbers, "numbers",
     "several numbers, as many in each row as in the first; dtypes as for number"},
    {ColumnKind::kLabels, "labels",
     "any number of classes: a|b, a;b, [\"a\", \"b\"] or {\"choices\": [\"a\", \"b\"]}"},
    {ColumnKind::kBoxes, "boxes", "any number of [x_min, y_min, x_max, y_max] in pixels"},
    {ColumnKind::kBoxesXywh, "boxes-xywh", "any number of [x_min, y_min, width, height] in pixels"},
    {ColumnKind::kPoints, "points", "any number of [x, y, visible] in pixels"},
    {ColumnKind::kMask, "mask", "the path of a PNG of class numbers, or nothing"},
}};

Status wrong(const std::string& what) {
  return Status(ErrorCode::kCorrupt, what);
}

}  // namespace

static const KindName* find_kind(std::string_view name) {
  const auto it = std::find_if(kColumnKinds.begin(), kColumnKinds.end(),
                               [&](const KindName& one) { return one.name == name; });
  return it != kColumnKinds.end() ? &*it : nullptr;
}

/// COLUMN:KIND, or COLUMN:KIND:BOXES. A column's name may hold colons.
static Result<TypedColumn> parse_typed_column(const std::string& text) {
  TypedColumn column;
  const auto before_last = [](const std::string& whole) {
    const size_t colon = whole.rfind(':');
    return std::pair(whole.substr(0, colon), colon == std::string::npos ? "" : whole.substr(colon + 1));
  };
  auto [name, last] = before_last(text);
  const auto [first, middle] = before_last(name);
  const KindName* kind = find_kind(middle);  // if found, `last` names boxes, even if it is also a kind's name
  if (kind != nullptr) {
    name = first;
    column.of = last;
  } else {
    kind = find_kind(last);
  }
  if (name.empty() || kind == nullptr) {
    std::vector<std::string> known;
    known.reserve(kColumnKinds.size());
    for (const KindName& one : kColumnKinds) known.emplace_back(one.name);
    return misuse("ingest", "--field ", printable(text), ": give COLUMN:KIND",
                  printable(suggestion(last, known)));
  }
  column.name = name;
  column.kind = kind->kind;
  return column;
}

/// The word after number and numbers is a dtype unless a column of boxes has this name.
static void take_dtypes(std::vector<TypedColumn>& columns) {
  for (TypedColumn& column : columns) {
    const bool may_have = column.kind == ColumnKind::kNumber || column.kind == ColumnKind::kNumbers;
    const auto dtype = parse_dtype(column.of);
    const bool is_column = std::any_of(columns.begin(), columns.end(),
                                       [&](const TypedColumn& one) { return one.name == column.of; });
    if (!may_have || !dtype.ok() || is_column) continue;
    column.dtype = *dtype;
    column.of.clear();
  }
}

/// A column that belongs to boxes must name a column of boxes and be of a kind that has rows.
static Status check_link(const TypedColumn& column, std::span<const TypedColumn> columns) {
  if (column.of.empty()) return {};
  const bool is_known = std::any_of(columns.begin(), columns.end(), [&](const TypedColumn& one) {
    return one.name == column.of && (one.kind == ColumnKind::kBoxes || one.kind == ColumnKind::kBoxesXywh);
  });
  if (!is_known)
    return misuse("ingest", "--field ", printable(column.name), ": ", printable(column.of),
                  " is not a column of boxes; add --field ", shell_text(concat(column.of, ":boxes")));
  if (column.kind != ColumnKind::kLabels && column.kind != ColumnKind::kNumbers)
    return misuse("ingest", "--field ", printable(column.name),
                  ": only labels and numbers can belong to boxes");
  return {};
}

Result<std::vector<TypedColumn>> parse_typed_columns(std::span<const std::string> texts) {
  DLPIPE_RETURN_IF_ERROR(check_field_count("--field", texts.size()));
  std::vector<TypedColumn> columns;
  for (const std::string& text : texts) {
    DLPIPE_ASSIGN_OR_RETURN(const TypedColumn column, parse_typed_column(text));
    const std::string& name = column.name;
    if (std::any_of(columns.begin(), columns.end(), [&](const TypedColumn& one) { return one.name == name; }))
      return misuse("ingest", "--field names the column ", printable(name), " twice");
    columns.push_back(column);
  }
  take_dtypes(columns);
  for (const TypedColumn& column : columns) DLPIPE_RETURN_IF_ERROR(check_link(column, columns));
  return columns;
}

std::string column_kinds_text() {
  std::string text;
  for (const KindName& one : kColumnKinds) text += concat(text.empty() ? "" : "; ", one.name, ", ", one.help);
  return text;
}

Field field_of(const TypedColumn& column, int64_t numbers) {
  switch (column.kind) {
    case ColumnKind::kText:
      return {column.name, FieldKind::kBytes, DType::kU8, {}};
    case ColumnKind::kNumber:
      return {column.name, FieldKind::kTensor, column.dtype, {1}};
    case ColumnKind::kNumbers:
      if (!column.of.empty()) return {column.name, FieldKind::kTensor, DType::kF32, {}, column.of};
      return {column.name, FieldKind::kTensor, column.dtype, {std::max<int64_t>(1, numbers)}};
    case ColumnKind::kLabels:
      return {column.name, FieldKind::kLabels, DType::kI64, {}, column.of};
    case ColumnKind::kBoxes:
    case ColumnKind::kBoxesXywh:
      return {column.name, FieldKind::kBoxes, DType::kF32, {4}};
    case ColumnKind::kPoints:
      return {column.name, FieldKind::kPoints, DType::kF32, {3}};
    case ColumnKind::kMask:
      return {column.name, FieldKind::kMask, DType::kU8, {}};
  }
  return {};
}

Result<std::vector<std::string>> names_in_cell(std::string_view cell) {
  std::vector<std::string> names;
  if (cell.empty()) return names;
  if (cell.front() != '[' && cell.front() != '{') {
    for (const std::string& piece : split(cell, cell.find('|') == std::string_view::npos ? ';' : '|')) {
      if (trim(piece).empty()) return wrong(concat("an empty class in '", short_name(cell), "'"));
      names.emplace_back(trim(piece));
    }
    return names;
  }
  auto json = nlohmann::json::parse(cell, nullptr, false);
  if (json.is_object() && json.size() == 1 && json.contains("choices")) {  // Label Studio's CSV
    auto choices = std::move(json["choices"]);                             // copying a value is recursive
    json = std::move(choices);
  }
  if (!json.is_array())
    return wrong(concat("'", short_name(cell), "' is not a list of classes; write [\"cat\", \"sea\"]"));
  for (const auto& one : json) {
    int64_t whole = 0;
    const bool is_fraction = one.is_number_float();  // perhaps a whole number, such as 7.0
    if (!one.is_string() && !one.is_number_integer() && !(is_fraction && parse_whole(one.dump(), &whole)))
      return wrong(concat("'", short_name(cell), "' is not a list of names or whole numbers"));
    names.push_back(one.is_string() ? one.get<std::string>()
                    : is_fraction   ? std::to_string(whole)
                                    : one.dump());
    if (names.back().empty()) return wrong(concat("an empty class in '", short_name(cell), "'"));
  }
  return names;
}

/// Calls `take(text)` with each number's text, until one fails.
template <class Take>
static Status each_number(std::string_view cell, const Take& take) {
  constexpr std::string_view kBetween = "[](), \t\n\r;|";
  size_t at = 0;
  while ((at = cell.find_first_not_of(kBetween, at)) != std::string_view::npos) {
    const size_t end = std::min(cell.find_first_of(kBetween, at), cell.size());
    DLPIPE_RETURN_IF_ERROR(take(cell.substr(at, end - at)));
    at = end;
  }
  return {};
}

std::string unfit_number(std::string_view text, DType dtype) {
  double value = 0;
  if (!parse_double(text, &value)) return "is not a number";
  if (text.find_first_of("nN") != std::string_view::npos) return "is not finite";  // inf, nan
  if (dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64)
    return concat("is not a whole number in the range of ", dtype_name(dtype));
  return concat("is too large for ", dtype_name(dtype));
}

/// A whole number, perhaps with a leading plus.
static bool parse_signed(std::string_view text, int64_t* whole) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return parse_int(text, whole);
}

Result<std::vector<float>> numbers_in_cell(std::string_view cell) {
  std::vector<float> numbers;
  DLPIPE_RETURN_IF_ERROR(each_number(cell, [&](std::string_view text) {
    double value = 0;
    if (!parse_double(text, &value) || !std::isfinite(static_cast<float>(value)))
      return wrong(concat(in_quotes(text), " ", unfit_number(text, DType::kF32)));
    numbers.push_back(static_cast<float>(value));
    return Status();
  }));
  return numbers;
}

bool has_rounded_number(std::string_view cell) {
  constexpr size_t kExactDigits = 7;
  bool is_rounded = false;
  (void)each_number(cell, [&](std::string_view text) {
    int64_t whole = 0;
    is_rounded = is_rounded ||
                 (text.size() > kExactDigits && parse_signed(text, &whole) &&
                  static_cast<long double>(static_cast<float>(whole)) != static_cast<long double>(whole));
    return Status();
  });
  return is_rounded;
}

/// The bytes of one number as a T; "" if it is not a number, or does not fit T.
template <class T>
static std::string number_bytes(std::string_view text) {
  T number{};
  if constexpr (std::is_integral_v<T>) {
    int64_t whole = 0;
    if (!parse_signed(text, &whole)) return {};
    number = static_cast<T>(whole);
    if (int64_t{number} != whole) return {};
  } else {
    double value = 0;
    if (!parse_double(text, &value)) return {};
    if constexpr (std::is_same_v<T, double>)
      number = value;
    else
      number = T(static_cast<float>(value));
    const bool is_finite =
        std::is_same_v<T, double> ? std::isfinite(value) : std::isfinite(static_cast<float>(number));
    if (!is_finite) return {};
  }
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

static std::string number_bytes(DType dtype, std::string_view text) {
  switch (dtype) {
    case DType::kF32:
      return number_bytes<float>(text);
    case DType::kF64:
      return number_bytes<double>(text);
    case DType::kBF16:
      return number_bytes<BFloat16>(text);
    case DType::kF16:
      return number_bytes<Float16>(text);
    case DType::kU8:
      return number_bytes<uint8_t>(text);
    case DType::kI32:
      return number_bytes<int32_t>(text);
    case DType::kI64:
      return number_bytes<int64_t>(text);
  }
  return {};
}

/// A cell of kNumber or kNumbers, with as many numbers as the cells before.
static Result<std::string> encode_fixed(const TypedColumn& column, std::string_view cell, int64_t* numbers) {
  std::string bytes;
  int64_t count = 0;
  DLPIPE_RETURN_IF_ERROR(each_number(cell, [&](std::string_view text) {
    const std::string one = number_bytes(column.dtype, text);
    if (one.empty())
      return wrong(concat(in_quotes(text), " ", unfit_number(text, column.dtype),
                          column.dtype == DType::kF32 && !number_bytes<double>(text).empty()
                              ? "; correct it, or store the column as f64 (--field NAME:number:f64)"
                              : ""));
    bytes += one;
    ++count;
    return Status();
  }));
  if (column.kind == ColumnKind::kNumber) *numbers = 1;
  if (*numbers == 0) *numbers = count;
  if (count == *numbers && count > 0) return bytes;
  return wrong(concat(counted(count, "number"), " instead of ", *numbers));
}

Result<std::string> encode_boxes(std::vector<float> numbers, bool is_xywh) {
  if (numbers.size() % 4 != 0) return wrong(concat(numbers.size(), " numbers do not form boxes of four"));
  for (size_t i = 0; i < numbers.size(); i += 4) {
    if (is_xywh) {
      numbers[i + 2] += numbers[i];
      numbers[i + 3] += numbers[i + 1];
    }
    if (numbers[i + 2] < numbers[i] || numbers[i + 3] < numbers[i + 1])
      return wrong(concat(
          "box ", i / 4 + 1, " ends before it begins; ",
          is_xywh ? "boxes-xywh expects x_min, y_min, width, height"
                  : "boxes expects x_min, y_min, x_max, y_max; boxes-xywh expects widths and heights"));
  }
  return encode_numbers(numbers);
}

Result<std::string> encode_cell(const TypedColumn& column, std::string_view cell, int64_t* numbers) {
  const ColumnKind kind = column.kind;
  if (column.of.empty() && (kind == ColumnKind::kNumber || kind == ColumnKind::kNumbers))
    return encode_fixed(column, cell, numbers);
  DLPIPE_ASSIGN_OR_RETURN(std::vector<float> values, numbers_in_cell(cell));
  const auto count = static_cast<int64_t>(values.size());
  if (kind == ColumnKind::kBoxes || kind == ColumnKind::kBoxesXywh)
    return encode_boxes(std::move(values), kind == ColumnKind::kBoxesXywh);
  if (kind == ColumnKind::kPoints) {
    if (count % 3 == 0) return encode_numbers(values);
    return wrong(concat(count, " numbers do not form points of x, y, visible"));
  }
  return encode_numbers(values);
}

std::string encode_numbers(std::span<const float> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

std::string encode_labels(std::span<const int64_t> labels) {
  return {reinterpret_cast<const char*>(labels.data()), labels.size_bytes()};
}

void renumber_labels(std::span<const Field> fields, SourceEntry& entry,
                     const std::function<int64_t(int64_t)>& to) {
  for (size_t i = 0; i < fields.size() && i < entry.extra.size(); ++i) {
    if (fields[i].kind != FieldKind::kLabels) continue;
    std::vector<int64_t> labels = decode_labels(entry.extra[i]);
    for (int64_t& label : labels) label = to(label);
    entry.extra[i] = encode_labels(labels);
  }
}

std::vector<int64_t> decode_labels(std::string_view bytes) {
  std::vector<int64_t> labels(bytes.size() / sizeof(int64_t));
  if (!labels.empty()) std::memcpy(labels.data(), bytes.data(), labels.size() * sizeof(int64_t));
  return labels;
}

}  // namespace dlpipe::data
