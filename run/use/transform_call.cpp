#include "dlpipe/run/use/transform_call.h"

#include <map>
#include <set>

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
  conversion.result.notes.push_back(concat(name(), ": ", text));
}

void TransformCall::cannot_read(std::string_view parameter, const Json& given,
                                std::string_view expected) const {
  const bool is_word = given.is_string();
  conversion.result.no_equal.push_back(
      concat(name(), ": ", parameter, " is ", is_word ? given.as_string() : given.dump(), ", and not ",
             expected, is_word && expected == "a number" ? "; write its value" : ""));
}

double TransformCall::number(std::string_view parameter, const Json& given) const {
  if (!given.is_number()) cannot_read(parameter, given);
  return given.as_double();
}

void TransformCall::normalize(const std::string& mean, const std::string& std) const {
  if (!conversion.normalize.empty()) {
    conversion.result.no_equal.push_back(concat(name(), ": pictures are normalised once, at the end"));
    return;
  }
  const auto values = [](const std::string& text) {
    std::vector<double> all;
    for (const std::string& one : split(text, ':')) {
      if (double value = 0; parse_double(one, &value)) all.push_back(value);
    }
    return all;
  };
  conversion.normalize = concat("normalize(", mean, ",", std, ")");
  conversion.mean = values(mean);
  conversion.std = values(std);
  conversion.std.resize(conversion.mean.size(), conversion.std.empty() ? 1.0 : conversion.std[0]);
}

void TransformCall::note_unread() const {
  // Without effect on a picture's pixels, or how the library goes about it.
  static const std::set<std::string_view> idle = {"antialias",          "inplace",   "always_apply",
                                                  "mask_interpolation", "fill_mask", "mask_fill"};
  const auto is_nothing = [](const Json& given) {
    return given.is_null() || given == Json(false) || (given.is_number() && given.as_double() == 0) ||
           (given.is_array() && given.items().empty());
  };
  for (const auto& [key, given] : call["kwargs"].members()) {
    const bool is_default = key == "p" && given.as_double() == 1;
    if (!read.contains(key) && !is_nothing(given) && !is_default && !idle.contains(key))
      note(concat(key, "=", given.is_string() ? given.as_string() : given.dump(), " is left out"));
  }
  const auto& args = call["args"].items();
  for (size_t i = 0; i < args.size(); ++i) {
    if (!read_places.contains(i) && !is_nothing(args[i]) && !args[i].is_object())
      note(concat("its argument ", i + 1, ", ", args[i].dump(), ", is left out"));
  }
}

const Json& TransformCall::get(std::string_view name, size_t place) const {
  read.emplace(name);
  read_places.insert(place);
  const Json& named = call["kwargs"][name];
  if (!named.is_null() || place >= call["args"].items().size()) return named;
  return call["args"].items()[place];
}

double TransformCall::value(std::string_view name, size_t place, double fallback) const {
  const Json& given = get(name, place);
  return given.is_null() ? fallback : number(name, given);
}

std::string TransformCall::range(std::string_view name, size_t place, const std::string& fallback,
                                 double scale, double add) const {
  const auto scaled = [&](const Json& given) { return number(name, given) * scale + add; };
  const Json& given = get(name, place);
  const Json& range = given.is_object() ? given["x"] : given;
  if (range.is_null()) return fallback;
  if (!range.is_array()) return number_text(scaled(range));
  if (range.items().size() == 1) return number_text(scaled(range.items()[0]));
  if (range.items().empty()) return fallback;
  return augment::range_text({scaled(range.items()[0]), scaled(range.items()[1])});
}

std::optional<std::string> TransformCall::size(std::string_view name, size_t place) const {
  const auto text = [&](const Json& height, const Json& width) {
    return concat(number_text(number(name, height)), "x", number_text(number(name, width)));
  };
  const Json& given = get(name, place);
  if (given.is_number() || given.is_string()) return number_text(number(name, given));
  if (given.is_array() && given.items().size() == 1) return number_text(number(name, given.items()[0]));
  if (given.is_array() && given.items().size() == 2) return text(given.items()[0], given.items()[1]);
  const Json& height = get("height", 0);
  const Json& width = get("width", 1);
  if (!height.is_null() && !width.is_null()) return text(height, width);
  return std::nullopt;
}

std::string TransformCall::list(std::string_view name, size_t place) const {
  const std::string values = list(name, get(name, place));
  return values.empty() ? number_text(value(name, place, 0.5)) : values;
}

std::string TransformCall::list(std::string_view name, const Json& given) const {
  std::string values;
  for (const Json& one : given.items())
    values += concat(values.empty() ? "" : ":", number_text(number(name, one)));
  return values;
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
  static const std::set<std::string_view> bilinear = {"bilinear", "linear", "1", "inter_linear"};
  const Json& given = get("interpolation", place);
  if (given.is_null()) return {};
  std::string word = last_word(given.is_string() ? given.as_string() : given.dump());
  if (word.starts_with("inter_"))
    word = word == "inter_cubic" ? "bicubic" : word == "inter_lanczos4" ? "lanczos" : word.substr(6);
  if (word == "area") word = "box";
  if (bilinear.contains(word)) return {};
  const auto found = known.find(word);
  if (found == known.end()) {
    cannot_read("interpolation", given,
                "a filter that dlpipe knows (nearest, bilinear, bicubic, area, lanczos)");
    return {};
  }
  return concat(",interpolation=", found->second);
}

std::string TransformCall::warp_filter(std::string_view fallback) const {
  if (get("interpolation").is_null()) return concat(",interpolation=", fallback);
  return concat(",interpolation=", filter() == ",interpolation=nearest" ? "nearest" : "bilinear");
}

std::string TransformCall::border() const {
  const Json& given = get("border_mode");
  const std::string word = given.is_string() ? last_word(given.as_string()) : std::to_string(given.as_int());
  if (word == "4" || word == "border_reflect_101" || word == "border_default") return ",reflect";
  if (word != "0" && word != "border_constant")
    cannot_read("border_mode", given, "one that dlpipe knows (constant, reflect_101)");
  return {};
}

std::string TransformCall::fill(std::string_view name) const {
  const Json& written = get(name);
  // torchvision prints a colour for each kind of input: {'others': 0}.
  const Json& given = written.is_object() && written.members().size() == 1 && written["name"].is_null()
                          ? written.members().front().second
                          : written;
  if (given.is_null() || given.is_object() || (given.is_number() && given.as_double() == 0)) return {};
  if (given.is_array() && given.items().empty()) return {};
  return concat(",fill=", given.is_array() ? list(name, given) : number_text(number(name, given)));
}

}  // namespace dlpipe::run
