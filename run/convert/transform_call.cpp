#include "dlpipe/run/convert/transform_call.h"

#include <algorithm>
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
  const std::string text =
      concat(name(), ": ", parameter, " is ", is_word ? given.as_string() : given.dump(), ", and not ",
             expected, is_word && expected == "a number" ? "; write its value" : "");
  std::vector<std::string>& said = conversion.result.no_equal;
  const bool is_said =
      said.size() > conversion.placed_no_equal && said.back() == text;  // a rule may ask twice
  if (!is_said) said.push_back(text);
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

namespace {

/// Null, zero or empty, and lists and objects of such.
bool is_nothing(const Json& given) {
  if (given.is_array()) return std::ranges::all_of(given.items(), is_nothing);
  if (given.is_object())
    return std::ranges::all_of(given.members(), [](const auto& one) { return is_nothing(one.second); });
  return given.is_null() || given == Json(false) || (given.is_number() && given.as_double() == 0) ||
         (given.is_string() && given.as_string().empty());
}

/// What Albumentations saves of every transform, changed or not, and the ops here do too.
bool is_usual(std::string_view key, const Json& given) {
  static const std::map<std::string_view, std::string_view> usual = {{"p", "1"},
                                                                     {"per_channel", "true"},
                                                                     {"noise_scale_factor", "1"},
                                                                     {"brightness_by_max", "true"},
                                                                     {"position", "center"},
                                                                     {"pad_position", "center"},
                                                                     {"by_channels", "true"},
                                                                     {"mode", "cv"},
                                                                     {"max_pixel_value", "255"},
                                                                     {"normalization", "standard"},
                                                                     {"method", "weighted_average"},
                                                                     {"num_output_channels", "3"},
                                                                     {"normalized", "true"},
                                                                     {"allow_shifted", "true"},
                                                                     {"direction_range", "[-1,1]"}};
  const auto found = usual.find(key);
  if (found == usual.end()) return false;
  if (given.is_number()) return number_text(given.as_double()) == found->second;
  if (given.is_string()) return last_word(given.as_string()) == found->second;
  if (!given.is_array()) return given.dump() == found->second;
  std::string text;
  for (const Json& one : given.items()) text += concat(text.empty() ? "" : ",", number_text(one.as_double()));
  return concat("[", text, "]") == found->second;
}

}  // namespace

void TransformCall::note_unread() const {
  // Without effect on a picture's pixels, or how the library goes about it.
  static const std::set<std::string_view> idle = {"antialias",
                                                  "inplace",
                                                  "always_apply",
                                                  "mask_interpolation",
                                                  "fill_mask",
                                                  "mask_fill",
                                                  "mask_value",
                                                  "mask_fill_value",
                                                  "mask_fill_values",
                                                  "cval_mask",
                                                  "rotate_method",
                                                  "keypoint_remapping_method",
                                                  "transpose_mask",
                                                  "seed",
                                                  "strict",
                                                  "is_check_shapes",
                                                  "is_check_args",
                                                  "additional_targets",
                                                  "keypoint_params",
                                                  "save_key",
                                                  "save_applied_params"};
  for (const auto& [key, given] : call["kwargs"].members()) {
    if (!read.contains(key) && !is_nothing(given) && !idle.contains(key) && !is_usual(key, given))
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
  // Albumentations 1.x: whatever p is.
  static const Json always(1);
  if (name == "p" && call["kwargs"]["always_apply"].as_bool(false)) return always;
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
  if (!range.is_array()) {
    if (add == 0) return number_text(scaled(range));
    const double far = number(name, range) * scale;
    return augment::range_text({add - far, add + far});
  }
  if (range.items().size() == 1) return number_text(scaled(range.items()[0]));
  if (range.items().empty()) return fallback;
  if (range.items().size() > 2) {
    cannot_read(name, given, "one number or two");
    return fallback;
  }
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

std::string TransformCall::outside() const {
  if (!border().empty()) note("what comes from outside is one colour, there the picture mirrored");
  return fill();
}

std::string TransformCall::widths(std::string_view fallback) const {
  const Json& given = get("blur_limit", 0);
  if (given.is_null()) return std::string(fallback);
  const std::string text = range("blur_limit", 0, "");
  return given.is_number() && given.as_double() > 3 ? concat("3..", text) : text;
}

std::string TransformCall::fill(std::string_view name) const {
  const Json* found = &get(name);
  if (name == "fill") {
    for (const char* older : {"fill_value", "value", "cval"}) {
      if (found->is_null()) found = &get(older);
    }
  }
  const Json& written = *found;
  // torchvision prints a colour for each kind of input: {'others': 0}.
  const Json& given = written.is_object() && written.members().size() == 1 && written["name"].is_null()
                          ? written.members().front().second
                          : written;
  if (given.is_null() || given.is_object() || (given.is_number() && given.as_double() == 0)) return {};
  if (given.is_array() && given.items().empty()) return {};
  return concat(",fill=", given.is_array() ? list(name, given) : number_text(number(name, given)));
}

}  // namespace dlpipe::run
