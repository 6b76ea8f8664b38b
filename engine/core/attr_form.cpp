#include "engine/core/attr_form.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::engine {

namespace attr_form_parts {

namespace {

[[noreturn]] void refuse_value(const Place& place, std::string_view expected) {
  throw Error(Status(ErrorCode::kCorrupt, concat("[", place.op, "] expected ", expected, " as attribute '",
                                                 place.name, "'; compile the model again")));
}

template <class T>
const T& of_kind(const AttrValue& value, const Place& place, std::string_view expected) {
  if (const T* const held = std::get_if<T>(&value); held != nullptr) return *held;
  refuse_value(place, expected);
}

template <class T>
T integer(int64_t value, const Place& place) {
  if (!std::in_range<T>(value)) refuse_value(place, "an integer in its range");
  return static_cast<T>(value);
}

const std::vector<int64_t>& integers(const AttrValue& value, const Place& place) {
  return of_kind<std::vector<int64_t>>(value, place, "a list of integers");
}

constexpr std::array kDTypes = {DType::kF32, DType::kF64, DType::kBF16, DType::kU8,
                                DType::kI32, DType::kI64, DType::kF16};

}  // namespace

const AttrValue& value_of(std::string_view op, std::span<const NamedAttr> list, std::string_view name) {
  for (const NamedAttr& attr : list) {
    if (attr.name == name) return attr.value;
  }
  throw Error(Status(ErrorCode::kCorrupt,
                     concat("[", op, "] attribute '", name, "' is missing; compile the model again")));
}

void refuse_unknown(std::string_view op, std::span<const NamedAttr> list,
                    std::span<const std::string_view> known) {
  for (const NamedAttr& attr : list) {
    if (std::find(known.begin(), known.end(), attr.name) != known.end()) continue;
    throw Error(Status(ErrorCode::kCorrupt, concat("[", op, "] has no attribute '", attr.name,
                                                   "'; it may be from a newer dlpipe: update this one")));
  }
}

AttrValue value_from(bool field) {
  return field;
}
AttrValue value_from(int field) {
  return static_cast<int64_t>(field);
}
AttrValue value_from(uint32_t field) {
  return static_cast<int64_t>(field);
}
AttrValue value_from(int64_t field) {
  return field;
}
AttrValue value_from(uint64_t field) {
  return static_cast<int64_t>(field);
}
AttrValue value_from(double field) {
  return field;
}
AttrValue value_from(const std::array<int, 2>& field) {
  return std::vector<int64_t>(field.begin(), field.end());
}
AttrValue value_from(const std::vector<int>& field) {
  return std::vector<int64_t>(field.begin(), field.end());
}
AttrValue value_from(const Shape& field) {
  return std::vector<int64_t>(field.begin(), field.end());
}
AttrValue value_from(DType field) {
  return std::string(dtype_name(field));
}
std::string name_of(size_t value, std::span<const std::string_view> names) {
  return std::string(names[value]);
}

void read_into(bool& field, const AttrValue& value, const Place& place) {
  field = of_kind<bool>(value, place, "true or false");
}
void read_into(int& field, const AttrValue& value, const Place& place) {
  field = integer<int>(of_kind<int64_t>(value, place, "an integer"), place);
}
void read_into(uint32_t& field, const AttrValue& value, const Place& place) {
  field = integer<uint32_t>(of_kind<int64_t>(value, place, "an integer"), place);
}
void read_into(int64_t& field, const AttrValue& value, const Place& place) {
  field = of_kind<int64_t>(value, place, "an integer");
}
void read_into(uint64_t& field, const AttrValue& value, const Place& place) {
  field = static_cast<uint64_t>(of_kind<int64_t>(value, place, "an integer"));
}
void read_into(double& field, const AttrValue& value, const Place& place) {
  if (const auto* const whole = std::get_if<int64_t>(&value); whole != nullptr) {
    field = static_cast<double>(*whole);
  } else {
    field = of_kind<double>(value, place, "a number");
  }
}
void read_into(std::array<int, 2>& field, const AttrValue& value, const Place& place) {
  const std::vector<int64_t>& list = integers(value, place);
  if (list.size() != 2) refuse_value(place, "two integers");
  field = {integer<int>(list[0], place), integer<int>(list[1], place)};
}
void read_into(std::vector<int>& field, const AttrValue& value, const Place& place) {
  field.clear();
  for (const int64_t one : integers(value, place)) field.push_back(integer<int>(one, place));
}
void read_into(Shape& field, const AttrValue& value, const Place& place) {
  const std::vector<int64_t>& list = integers(value, place);
  if (list.size() > static_cast<size_t>(Shape::kMaxRank)) refuse_value(place, "at most six sizes");
  for (const int64_t size : list) {
    if (size < 0) refuse_value(place, "sizes of at least 0");
  }
  field = Shape(std::span<const int64_t>(list));
}
void read_into(DType& field, const AttrValue& value, const Place& place) {
  const auto& name = of_kind<std::string>(value, place, "a dtype's name");
  const auto found =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](DType dtype) { return dtype_name(dtype) == name; });
  if (found == kDTypes.end()) refuse_value(place, "a dtype's name");
  field = *found;
}
size_t value_named(const AttrValue& value, std::span<const std::string_view> names, const Place& place) {
  const auto& name = of_kind<std::string>(value, place, "a name");
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) refuse_value(place, "a name that this dlpipe supports");
  return static_cast<size_t>(found - names.begin());
}

}  // namespace attr_form_parts

std::vector<NamedAttr> list_attrs(const OpRecord& record, const Attrs& attrs) {
  if (record.attr_form != nullptr) return record.attr_form->list(attrs);
  if (attrs.is<NoAttrs>()) return {};
  throw Error(Status(
      ErrorCode::kUnsupported,
      concat("[graph] the attributes of ", record.name,
             " can't be stored, so a graph can't contain this op; call it outside of the captured code")));
}

Attrs make_attrs(const OpRecord& record, std::span<const NamedAttr> list) {
  if (record.attr_form != nullptr) return record.attr_form->make(record.name, list);
  attr_form_parts::refuse_unknown(record.name, list, {});
  return NoAttrs{};
}

namespace {

std::string value_text(const AttrValue& value) {
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* const whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  if (const auto* const number = std::get_if<double>(&value)) return shortest_decimal(*number);
  std::string text = "[";
  for (const int64_t one : std::get<std::vector<int64_t>>(value)) {
    if (text.size() > 1) text += ',';
    text += std::to_string(one);
  }
  return text + "]";
}

}  // namespace

std::string attrs_text(std::span<const NamedAttr> list) {
  std::string text;
  for (const NamedAttr& attr : list)
    text += concat(text.empty() ? "" : " ", attr.name, "=", value_text(attr.value));
  return text;
}

}  // namespace dlpipe::engine
