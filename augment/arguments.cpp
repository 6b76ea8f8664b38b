#include "augment/arguments.h"
#include "dlpipe/augment_op.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/messages.h"
#include "base/text.h"

namespace dlpipe::augment {

namespace {
std::string kind_in_words(std::string_view kind) {
  if (kind == "int") return "a whole number";
  if (kind == "float") return "a number such as 0.5 or 3/4";
  if (kind == "size") return concat("a size such as 224 or 192x256 (height x width), at most ", kMaxSize);
  if (kind == "range") return "a range such as 0.08..1, lower end first";
  if (kind == "drawn") return "a number such as 1.5, or a range such as 0.5..1.5, lower end first";
  if (kind == "ints") return "a whole number, or a range of them such as 4..8";
  if (kind == "spread") return "a number such as 0.4, or a range such as 0.6..1.4, lower end first";
  if (kind == "color")
    return "whole numbers in 0..255, one for all channels or one per channel, such as 0 or 124:116:104";
  if (kind == "list") return "numbers such as 0.485:0.456:0.406";
  return "a word";
}
}  // namespace

std::string range_text(const Drawn& range) {
  return concat(shortest_decimal(range.low), "..", shortest_decimal(range.high));
}

bool parse_number(std::string_view text, double* value) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return parse_double(text, value) && std::isfinite(*value);
  double numerator = 0;
  double denominator = 0;
  if (!parse_double(text.substr(0, slash), &numerator)) return false;
  if (!parse_double(text.substr(slash + 1), &denominator) || denominator == 0) return false;
  *value = numerator / denominator;
  return std::isfinite(*value);
}

bool parse_size(std::string_view text, ImageSize* size, bool* is_single) {
  const size_t cross = text.find('x');
  *is_single = cross == std::string_view::npos;
  int64_t height = 0;
  if (!parse_int(text.substr(0, cross), &height)) return false;
  int64_t width = height;
  if (!*is_single && !parse_int(text.substr(cross + 1), &width)) return false;
  if (height < 1 || width < 1 || height > kMaxSize || width > kMaxSize) return false;
  size->height = static_cast<int>(height);
  size->width = static_cast<int>(width);
  return true;
}

bool parse_range(std::string_view text, std::vector<double>* bounds) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return false;
  double low = 0;
  double high = 0;
  if (!parse_number(text.substr(0, dots), &low)) return false;
  if (!parse_number(text.substr(dots + 2), &high) || low > high) return false;
  *bounds = {low, high};
  return true;
}

bool parse_list(std::string_view text, std::vector<double>* values) {
  values->clear();
  for (const std::string& piece : split(text, ':')) {
    double value = 0;
    if (!parse_number(trim(piece), &value)) return false;
    values->push_back(value);
  }
  return true;
}

std::string bounds_text(const OpParam& param) {
  const bool has_low = std::isfinite(param.low);
  const bool has_high = std::isfinite(param.high);
  if (has_low && has_high) return concat(shortest_decimal(param.low), "..", shortest_decimal(param.high));
  if (has_low) return concat("at least ", shortest_decimal(param.low));
  return has_high ? concat("at most ", shortest_decimal(param.high)) : std::string();
}

namespace {
/// The two numbers of a drawn, ints or spread parameter.
bool parse_drawn(const OpParam& param, std::string_view text, std::vector<double>* bounds) {
  double value = 0;
  if (!parse_number(text, &value)) {
    if (!parse_range(text, bounds)) return false;
  } else if (param.kind == "spread") {
    if (value < 0) return false;
    *bounds = {std::max(param.neutral - value, param.low), param.neutral + value};
  } else {
    *bounds = {value, value};
  }
  if (param.kind != "ints") return true;
  return std::floor((*bounds)[0]) == (*bounds)[0] && std::floor((*bounds)[1]) == (*bounds)[1];
}

Status check_bounds(const OpParam& param, std::span<const double> values, std::string_view text) {
  for (const double value : values) {
    if (value >= param.low && value <= param.high) continue;
    const std::string bounds = bounds_text(param);
    const bool both = std::isfinite(param.low) && std::isfinite(param.high);
    return Status(ErrorCode::kMisuse,
                  concat(param.name, " must ", both ? "be in " : "be ", bounds,
                         param.unit.empty() ? "" : concat(" ", param.unit), ", got ", short_name(text)));
  }
  return {};
}

Status check_choice(const OpParam& param, std::string_view text) {
  if (param.choices.empty()) return {};
  if (std::find(param.choices.begin(), param.choices.end(), text) != param.choices.end()) return {};
  return Status(ErrorCode::kMisuse, concat("unknown ", param.name, " ", in_quotes(text),
                                           suggestion(std::string(text), param.choices)));
}
}  // namespace

Result<std::string> canonical_value(const OpParam& param, std::string_view text) {
  const auto wrong = [&] {
    return Status(ErrorCode::kMisuse,
                  concat(param.name, " must be ", kind_in_words(param.kind), ", got ", in_quotes(text)));
  };
  if (text == "none" && param.default_value == "none") return std::string("none");
  std::vector<double> numbers;
  std::string canonical;
  if (param.kind == "int") {
    int64_t value = 0;
    if (!parse_int(text, &value)) return wrong();
    numbers = {static_cast<double>(value)};
    canonical = std::to_string(value);
  } else if (param.kind == "float") {
    double value = 0;
    if (!parse_number(text, &value)) return wrong();
    numbers = {value};
    canonical = shortest_decimal(value);
  } else if (param.kind == "size") {
    ImageSize size;
    bool single = false;
    if (!parse_size(text, &size, &single)) return wrong();
    canonical = single ? std::to_string(size.height) : concat(size.height, "x", size.width);
  } else if (param.kind == "range") {
    if (!parse_range(text, &numbers)) return wrong();
    canonical = shortest_decimal(numbers[0]) + ".." + shortest_decimal(numbers[1]);
  } else if (param.kind == "drawn" || param.kind == "ints" || param.kind == "spread") {
    if (!parse_drawn(param, text, &numbers)) return wrong();
    const bool is_one = numbers[0] == numbers[1] && param.kind != "spread";
    canonical = shortest_decimal(numbers[0]) + (is_one ? "" : ".." + shortest_decimal(numbers[1]));
  } else if (param.kind == "color") {
    if (!parse_list(text, &numbers) || numbers.size() > 4) return wrong();
    for (double value : numbers) {
      if (value < 0 || value > 255 || value != std::floor(value)) return wrong();
      canonical += (canonical.empty() ? "" : ":") + shortest_decimal(value);
    }
  } else if (param.kind == "list") {
    if (!parse_list(text, &numbers)) return wrong();
    for (double value : numbers) canonical += (canonical.empty() ? "" : ":") + shortest_decimal(value);
  } else {
    if (text.empty()) return wrong();
    DLPIPE_RETURN_IF_ERROR(check_choice(param, text));
    return std::string(text);
  }
  DLPIPE_RETURN_IF_ERROR(check_bounds(param, numbers, canonical));
  return canonical;
}

void OpArguments::no_such(std::string_view name, std::string_view kind) {
  if (!defect_.ok()) return;
  defect_ = Status(ErrorCode::kInternal,
                   concat("[augment] an op asks for parameter '", name, "' as ", kind,
                          ", but its record declares it differently; make its OpRecord and build agree"));
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
