#include "dlpipe/augment/arguments.h"

#include <algorithm>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

void OpArguments::no_such(std::string_view name, std::string_view kind) {
  if (!defect_.ok()) return;
  defect_ = Status(ErrorCode::kInternal,
                   concat("[augment] an op asks for parameter '", name, "' as ", kind,
                          ", but its record doesn't declare it so; make its OpRecord and build agree"));
}

const std::string* OpArguments::find(std::string_view name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return &value;
  }
  return nullptr;
}

int OpArguments::integer(std::string_view name) {
  const std::string* value = find(name);
  int64_t number = 0;
  if (value == nullptr || !parse_int(*value, &number)) no_such(name, "int");
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(number, -kMost, kMost));
}

double OpArguments::number(std::string_view name) {
  const std::string* value = find(name);
  double number = 0;
  if (value == nullptr || !parse_number(*value, &number)) no_such(name, "float");
  return number;
}

std::vector<double> OpArguments::numbers(std::string_view name) {
  const std::string* value = find(name);
  std::vector<double> numbers;
  if (value != nullptr && *value == "none") return numbers;
  if (value == nullptr || (!parse_range(*value, &numbers) && !parse_list(*value, &numbers))) {
    no_such(name, "list or range");
    return {0, 0};
  }
  return numbers;
}

Drawn OpArguments::drawn(std::string_view name) {
  const std::vector<double> bounds = numbers(name);
  if (bounds.empty()) return {};
  return {bounds.front(), bounds.back()};
}

std::string OpArguments::text(std::string_view name) {
  const std::string* value = find(name);
  if (value == nullptr) no_such(name, "string");
  return value == nullptr ? std::string() : *value;
}

ImageSize OpArguments::size(std::string_view name, bool* is_single) {
  const std::string* value = find(name);
  ImageSize size;
  bool single = false;
  if (value == nullptr || !parse_size(*value, &size, &single)) no_such(name, "size");
  if (is_single != nullptr) *is_single = single;
  return size;
}

bool OpArguments::is_none(std::string_view name) {
  const std::string* value = find(name);
  return value != nullptr && *value == "none";
}

}  // namespace dlpipe::augment
