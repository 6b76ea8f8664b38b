#include "dlpipe/run/use/transform_call.h"

#include <map>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

using formats::Json;

std::string number_text(double value) {
  const std::string range = augment::range_text({value, value});
  return range.substr(0, range.find(".."));
}

std::string last_word(const std::string& text) {
  const size_t dot = text.rfind('.');
  std::string word = text.substr(dot == std::string::npos ? 0 : dot + 1);
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return word;
}

void TransformCall::note(const std::string& text) const {
  result.notes.push_back(concat(name(), ": ", text));
}

const Json& TransformCall::get(std::string_view name, size_t place) const {
  const Json& named = call["kwargs"][name];
  if (!named.is_null() || place >= call["args"].items().size()) return named;
  return call["args"].items()[place];
}

double TransformCall::value(std::string_view name, size_t place, double fallback) const {
  return get(name, place).as_double(fallback);
}

std::string TransformCall::range(std::string_view name, size_t place, const std::string& fallback,
                                 double scale, double add) const {
  const auto scaled = [&](const Json& given) { return given.as_double() * scale + add; };
  const Json& given = get(name, place);
  if (given.is_number()) return number_text(scaled(given));
  const Json& range = given.is_object() ? given["x"] : given;
  if (!range.is_array() || range.items().size() < 2) return fallback;
  return augment::range_text({scaled(range.items()[0]), scaled(range.items()[1])});
}

std::optional<std::string> TransformCall::size(std::string_view name, size_t place) const {
  const auto text = [](const Json& height, const Json& width) {
    return concat(number_text(height.as_double()), "x", number_text(width.as_double()));
  };
  const Json& given = get(name, place);
  if (given.is_number()) return number_text(given.as_double());
  if (given.is_array() && given.items().size() == 1) return number_text(given.items()[0].as_double());
  if (given.is_array() && given.items().size() == 2) return text(given.items()[0], given.items()[1]);
  const Json& height = get("height", 0);
  const Json& width = get("width", 1);
  if (height.is_number() && width.is_number()) return text(height, width);
  return std::nullopt;
}

std::string TransformCall::list(std::string_view name, size_t place) const {
  std::string values;
  for (const Json& one : get(name, place).items())
    values += concat(values.empty() ? "" : ":", number_text(one.as_double()));
  return values.empty() ? number_text(value(name, place, 0.5)) : values;
}

std::string TransformCall::p(double fallback, size_t place) const {
  const double given = value("p", place, fallback);
  return given == 1 ? std::string() : concat(",p=", number_text(given));
}

std::string TransformCall::filter(size_t place) const {
  // OpenCV's numbers, Pillow's and torchvision's words; bilinear is what an op takes anyway.
  static const std::map<std::string, std::string_view, std::less<>> known = {
      {"0", "nearest"},       {"2", "bicubic"},       {"3", "area"},
      {"4", "lanczos"},       {"nearest", "nearest"}, {"nearest-exact", "nearest"},
      {"bicubic", "bicubic"}, {"lanczos", "lanczos"}, {"box", "area"}};
  const Json& given = get("interpolation", place);
  const auto found = known.find(last_word(given.is_string() ? given.as_string() : given.dump()));
  return found == known.end() ? std::string() : concat(",interpolation=", found->second);
}

std::string TransformCall::warp_filter(std::string_view fallback) const {
  if (get("interpolation").is_null()) return concat(",interpolation=", fallback);
  return concat(",interpolation=", filter() == ",interpolation=nearest" ? "nearest" : "bilinear");
}

std::string TransformCall::fill(std::string_view name) const {
  const Json& given = get(name);
  if (given.is_null() || (given.is_number() && given.as_double() == 0)) return {};
  if (!given.is_number() && given.items().empty()) return {};
  return concat(",fill=", given.is_number() ? number_text(given.as_double()) : list(name, 99));
}

}  // namespace dlpipe::run
