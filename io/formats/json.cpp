#include "io/formats/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/formats/atomic_file.h"

namespace dlpipe::formats {

bool Json::as_bool(bool fallback) const {
  const bool* value = std::get_if<bool>(&value_);
  return value != nullptr ? *value : fallback;
}
int64_t Json::as_int(int64_t fallback) const {
  const int64_t* value = std::get_if<int64_t>(&value_);
  return value != nullptr ? *value : fallback;
}
double Json::as_double(double fallback) const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  const double* value = std::get_if<double>(&value_);
  return value != nullptr ? *value : fallback;
}
const std::string& Json::as_string() const {
  static const std::string kEmpty;
  const std::string* value = std::get_if<std::string>(&value_);
  return value != nullptr ? *value : kEmpty;
}
const Json::Array& Json::items() const {
  static const Array kEmpty;
  const Array* value = std::get_if<Array>(&value_);
  return value != nullptr ? *value : kEmpty;
}
const Json::Object& Json::members() const {
  static const Object kEmpty;
  const Object* value = std::get_if<Object>(&value_);
  return value != nullptr ? *value : kEmpty;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json kNull;
  for (const Member& member : members()) {
    if (member.first == key) return member.second;
  }
  return kNull;
}
bool Json::contains(std::string_view key) const {
  return std::any_of(members().begin(), members().end(),
                     [&](const Member& member) { return member.first == key; });
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object();
  Object& object = std::get<Object>(value_);
  for (Member& member : object) {
    if (member.first == key) {
      member.second = std::move(value);
      return *this;
    }
  }
  object.emplace_back(std::string(key), std::move(value));
  return *this;
}
Json& Json::set_path(std::string_view key, std::string_view path) {
  set(key, path);
  return is_utf8(path) ? *this : set(concat(key, "_bytes"), to_base64(path));
}
Json& Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

namespace {

using Written = nlohmann::ordered_json;

Written to_written(const Json& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_integer()) return value.as_int();
  if (value.is_number()) return value.as_double();
  if (value.is_string()) return value.as_string();
  if (value.is_array()) {
    Written array = Written::array();
    for (const Json& item : value.items()) array.push_back(to_written(item));
    return array;
  }
  if (value.is_object()) {
    Written object = Written::object();
    // Keys are unique already; pushing to the underlying vector avoids a search for each.
    auto& members = object.get_ref<Written::object_t&>();
    for (const auto& [key, member] : value.members()) {
      members.Container::emplace_back(key, to_written(member));
    }
    return object;
  }
  return nullptr;
}

// Builds the value without recursion, so that hostile nesting can't overflow the stack.
class Builder {
 public:
  static constexpr size_t kMaxDepth = 256;
  // A value takes about a hundred bytes of memory, but may be only two bytes of text.
  static constexpr size_t kMaxValues = 1'000'000;

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return add(static_cast<double>(value));
    return add(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Written::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(std::string& name) {
    if (!frames_.back().keys.insert(name).second) {
      error_ = concat("key '", name, "' appears twice");
      return false;
    }
    frames_.back().key = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& exception) {
    const std::string_view text = exception.what();
    const size_t detail = text.find("syntax error");
    error_ = concat("byte ", position, ": ",
                    detail == std::string_view::npos ? without_area(text) : text.substr(detail));
    return false;
  }

  const std::string& error() const { return error_; }
  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json::Object members;
    Json::Array items;
    bool is_object = false;
    std::string key;
    std::set<std::string, std::less<>> keys;
  };

  bool add(Json value) {
    if (++values_ > kMaxValues) {
      error_ = concat("more than ", kMaxValues, " values");
      return false;
    }
    if (frames_.empty()) {
      root_ = std::move(value);
    } else if (frames_.back().is_object) {
      frames_.back().members.emplace_back(std::move(frames_.back().key), std::move(value));
    } else {
      frames_.back().items.push_back(std::move(value));
    }
    return true;
  }
  bool open(const Json& kind) {
    if (frames_.size() == kMaxDepth) {
      error_ = concat("nested deeper than ", kMaxDepth);
      return false;
    }
    frames_.emplace_back();
    frames_.back().is_object = kind.is_object();
    return true;
  }
  bool close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    return add(frame.is_object ? Json(std::move(frame.members)) : Json(std::move(frame.items)));
  }

  std::vector<Frame> frames_;
  size_t values_ = 0;
  Json root_;
  std::string error_;
};

}  // namespace

std::string Json::dump(int indent) const {
  return to_written(*this).dump(indent, ' ', false, Written::error_handler_t::replace);
}

Result<Json> Json::parse(std::string_view text) {
  Builder builder;
  if (!Written::sax_parse(text.begin(), text.end(), &builder)) {
    return Status(ErrorCode::kCorrupt, concat("[json] not valid JSON: ", builder.error()));
  }
  return builder.take();
}

Status write_json(const std::string& path, const Json& value) {
  return write_file(path, value.dump(2) + "\n");
}

Result<Json> read_json(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  Result<Json> value = Json::parse(text);
  if (!value.ok()) return Status(value.status().code(), concat(value.status().message(), ", in ", path));
  return value;
}

static Status missing(std::string_view key, std::string_view kind, std::string_view file) {
  return {ErrorCode::kCorrupt, concat("[json] no '", key, "' (", kind, ") in ", file)};
}
Result<int64_t> require_int(const Json& object, std::string_view key, std::string_view file) {
  if (!object[key].is_integer()) return missing(key, "integer", file);
  return object[key].as_int();
}
Result<std::string> require_string(const Json& object, std::string_view key, std::string_view file) {
  if (!object[key].is_string()) return missing(key, "string", file);
  return object[key].as_string();
}

}  // namespace dlpipe::formats
