// Converts an op's attributes to a list of names and values, which graphs print, compare and write to files, and back.
//
// A struct of attributes supports this by naming its fields once, in a static member `each` (ops/losses.h is a short
// example), and its op's record by `.attr_form = &attr_form<SoftmaxAttrs>`. tests/engine/graph/attr_form_test.cpp tests
// the round trip for the samples of every op.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "dlpipe/op.h"

namespace dlpipe::engine {

/// Enumerations are strings; sizes and axes are lists of integers.
using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

struct NamedAttr {
  std::string name;
  AttrValue value;
  friend bool operator==(const NamedAttr&, const NamedAttr&) = default;
};

struct AttrForm {
  std::vector<NamedAttr> (*list)(const Attrs& attrs);
  /// Throws kCorrupt, "[op] ...", if an attribute is missing, unknown, of another kind or out of its type's range.
  Attrs (*make)(std::string_view op, std::span<const NamedAttr> list);
  /// The number of fields of the struct. A test compares it with the length of the list, to find fields that `each` omits.
  size_t fields;
};

namespace attr_form_parts {

const AttrValue& value_of(std::string_view op, std::span<const NamedAttr> list, std::string_view name);

AttrValue value_from(bool field);
AttrValue value_from(int field);
AttrValue value_from(uint32_t field);
AttrValue value_from(int64_t field);
AttrValue value_from(uint64_t field);
AttrValue value_from(double field);
AttrValue value_from(const std::array<int, 2>& field);
AttrValue value_from(const std::vector<int>& field);
AttrValue value_from(const Shape& field);
AttrValue value_from(DType field);
/// For other enumerations, with a function `attr_names(Enum)` in their header that returns the names of the values from 0 on.
std::string name_of(size_t value, std::span<const std::string_view> names);
template <class Enum>
requires std::is_enum_v<Enum> AttrValue value_from(Enum field) {
  return name_of(static_cast<size_t>(field), attr_names(field));
}

/// The op and the attribute that is being read, for errors.
struct Place {
  std::string_view op, name;
};
void read_into(bool& field, const AttrValue& value, const Place& place);
void read_into(int& field, const AttrValue& value, const Place& place);
void read_into(uint32_t& field, const AttrValue& value, const Place& place);
void read_into(int64_t& field, const AttrValue& value, const Place& place);
void read_into(uint64_t& field, const AttrValue& value, const Place& place);
void read_into(double& field, const AttrValue& value, const Place& place);
void read_into(std::array<int, 2>& field, const AttrValue& value, const Place& place);
void read_into(std::vector<int>& field, const AttrValue& value, const Place& place);
void read_into(Shape& field, const AttrValue& value, const Place& place);
void read_into(DType& field, const AttrValue& value, const Place& place);
size_t value_named(const AttrValue& value, std::span<const std::string_view> names, const Place& place);
template <class Enum>
requires std::is_enum_v<Enum>
void read_into(Enum& field, const AttrValue& value, const Place& place) {
  field = static_cast<Enum>(value_named(value, attr_names(field), place));
}

void refuse_unknown(std::string_view op, std::span<const NamedAttr> list,
                    std::span<const std::string_view> known);

/// Converts to the type of any field.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: an initialiser has to convert implicitly
};
template <class T, class... Initialisers>
constexpr size_t count_fields() {
  if constexpr (requires { T{Initialisers()..., Anything()}; }) {
    return count_fields<T, Initialisers..., Anything>();
  } else {
    return sizeof...(Initialisers);
  }
}

}  // namespace attr_form_parts

struct IgnoresFields {
  void operator()(const char*, auto&) const {}
};
/// A struct that names its fields.
template <class T>
concept ListedAttrs = requires(T& attrs) {
  T::each(attrs, IgnoresFields());
};

template <class T>
requires ListedAttrs<T>
inline constexpr AttrForm attr_form = {
    .list =
        [](const Attrs& attrs) {
          std::vector<NamedAttr> list;
          T::each(attrs.as<T>(), [&](const char* name, const auto& field) {
            list.push_back({name, attr_form_parts::value_from(field)});
          });
          return list;
        },
    .make =
        [](std::string_view op, std::span<const NamedAttr> list) {
          T made;
          std::vector<std::string_view> known;
          T::each(made, [&](const char* name, auto& field) {
            known.push_back(name);
            attr_form_parts::read_into(field, attr_form_parts::value_of(op, list, name), {op, name});
          });
          attr_form_parts::refuse_unknown(op, list, known);
          return Attrs(std::move(made));
        },
    .fields = attr_form_parts::count_fields<T>(),
};

/// The attributes of a call of `record` as a list; empty for an op without attributes. Throws kUnsupported if they
/// can't be stored.
std::vector<NamedAttr> list_attrs(const OpRecord& record, const Attrs& attrs);
/// The attributes from a list. Throws kCorrupt if the list doesn't fit the op.
Attrs make_attrs(const OpRecord& record, std::span<const NamedAttr> list);
/// "stride=[2,2] relu=true"; values as JSON writes them.
std::string attrs_text(std::span<const NamedAttr> list);

}  // namespace dlpipe::engine
