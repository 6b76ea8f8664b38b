// A JSON value, used for receipts, checkpoints, metrics and `--json`.
//
// Value type; owns everything below it. Objects keep their order and hold each key once. Integers are 64-bit signed; larger
// ones in a file become doubles. NaN and infinities are written as null (JSON has neither). Parsing accepts any bytes: nesting
// is limited, duplicate keys are rejected, errors include the position.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::formats {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(bool value) : value_(value) {}                           // NOLINT: implicit by design
  Json(int value) : value_(static_cast<int64_t>(value)) {}      // NOLINT
  Json(int64_t value) : value_(value) {}                        // NOLINT
  Json(double value) : value_(value) {}                         // NOLINT
  Json(const char* value) : value_(std::string(value)) {}       // NOLINT
  Json(std::string value) : value_(std::move(value)) {}         // NOLINT
  Json(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  Json(Array value) : value_(std::move(value)) {}               // NOLINT
  Json(Object value) : value_(std::move(value)) {}              // NOLINT
  static Json array() { return Json(Array()); }
  static Json object(std::initializer_list<Member> members = {}) { return Json(Object(members)); }

  bool is_null() const { return value_.index() == 0; }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }

  /// The value, or `fallback` if it has another type.
  bool as_bool(bool fallback = false) const;
  int64_t as_int(int64_t fallback = 0) const;
  double as_double(double fallback = 0) const;
  const std::string& as_string() const;  // "" if it is not a string
  const Array& items() const;            // empty if it is not an array
  const Object& members() const;         // empty when it isn't an object

  /// The member `key` of an object; null (the value) when there is none.
  const Json& operator[](std::string_view key) const;
  bool contains(std::string_view key) const;
  /// Sets or replaces a member; a null value becomes an object first.
  Json& set(std::string_view key, Json value);
  /// Sets member `key` to a file's path. If the path is not UTF-8, which JSON requires, `key`_bytes holds its bytes in base64.
  Json& set_path(std::string_view key, std::string_view path);
  /// Appends to an array; a null value becomes an array first.
  Json& push_back(Json value);

  /// One line, or indented by `indent` blanks per level. Bytes that are not UTF-8 are written as U+FFFD.
  std::string dump(int indent = -1) const;
  /// kCorrupt says what is wrong and at which byte.
  static Result<Json> parse(std::string_view text);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

/// Whole files, written to a temporary name and renamed. Messages name them by their path.
Status write_json(const std::string& path, const Json& value);
Result<Json> read_json(const std::string& path);

/// A required member of a type, or kCorrupt "[json] no 'seed' (integer) in FILE".
Result<int64_t> require_int(const Json& object, std::string_view key, std::string_view file);
Result<std::string> require_string(const Json& object, std::string_view key, std::string_view file);

}  // namespace dlpipe::formats
