// timm's: the functions that make its transforms by a text or by many arguments, and the transforms of its own.
#include "dlpipe/run/convert/transform_rules.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

std::string word_of(const Json& given) {
  return given.is_string() ? last_word(given.as_string()) : std::string();
}

/// The number behind `key` in "rand-m9-mstd0.5-inc1".
double part_of(const std::string& config, std::string_view key, double fallback) {
  for (const std::string& part : split(config, '-')) {
    const size_t begin = std::min(part.find_first_of("0123456789."), part.size());
    double value = 0;
    if (part.substr(0, begin) == key && parse_double(part.substr(begin), &value)) return value;
  }
  return fallback;
}

/// Its crop draws one of two filters where it isn't told one.
std::string crop(const TransformCall& t, const std::string& size, const char* filter_name,
                 size_t filter_place, const char* filter) {
  const auto range = [&](const char* name, size_t place, const char* fallback) {
    return t.get(name, place).is_null() ? std::string(fallback) : t.range(name, place, fallback);
  };
  const std::string rectangle =
      concat("rrc(", size, ",", range("scale", 1, "0.08..1"), ",", range("ratio", 2, "3/4..4/3"));
  const Json& given = t.get(filter_name, filter_place);
  if ((given.is_null() ? filter : word_of(given)) == "random")
    return concat("one_of(", rectangle, ") | ", rectangle, ",interpolation=bicubic))");
  return concat(rectangle, t.filter(filter_place), ")");
}

/// rand_augment_transform, auto_augment_transform and augment_and_mix_transform by the text that they take.
TransformText by_text(const TransformCall& t, const char* name, const std::string& config,
                      const std::string& fill) {
  const std::string kind = config.substr(0, config.find('-'));
  if (kind == "3a") return "three_augment(0)";
  if (kind == "augmix") {
    t.note("AugMix's ops and magnitudes are torchvision's here, timm has some of its own");
    const double depth = part_of(config, "d", -1);
    return concat("augmix(", number_text(part_of(config, "m", 3)), ",", number_text(part_of(config, "w", 3)),
                  depth > 0 ? concat(",", number_text(depth)) : std::string(),
                  ",alpha=", number_text(part_of(config, "a", 1)), fill, ")");
  }
  if (kind == "original" || kind == "originalr" || kind == "v0" || kind == "v0r") {
    t.note("the policy is torchvision's AutoAugment of ImageNet here, timm's differs in some magnitudes");
    return concat("auto_augment(imagenet", fill, ")");
  }
  if (kind != "rand") {
    t.cannot_read(name, Json(config), "a policy's text, as 'rand-m9-mstd0.5'; write it");
    return std::nullopt;
  }
  t.note(
      "RandAugment's ops are torchvision's fourteen here, timm has others; magnitudes are of 10 there, of 30 "
      "here, and not "
      "spread (mstd)");
  const double magnitude = std::min(part_of(config, "m", 10), 10.0);
  const std::string p = number_text(part_of(config, "p", 0.5));
  return concat("repeat(", number_text(part_of(config, "n", 2)), ",randaugment(1,",
                number_text(std::round(3 * magnitude)), ",31", fill, ",p=", p, "))");
}

TransformText by_text_given(const TransformCall& t) {
  const Json& config = t.get("config_str", 0);
  if (!config.is_string()) {
    t.cannot_read("config_str", config, "a text");
    return std::nullopt;
  }
  const Json& hparams = t.get("hparams", 1);
  const std::string fill = t.list("img_mean", hparams["img_mean"]);
  return by_text(t, "config_str", config.as_string(), fill.empty() ? fill : ",fill=" + fill);
}

/// The side of its pictures; input_size is a number, (height, width) or (channels, height, width).
TransformText input_size(const TransformCall& t) {
  const Json& given = t.get("input_size", 0);
  if (!given.is_array()) return t.size("input_size", 0);
  const auto& sides = given.items();
  if (sides.size() < 2) return std::nullopt;
  return concat(number_text(t.number("input_size", sides[sides.size() - 2])), "x",
                number_text(t.number("input_size", sides.back())));
}

/// RandomErasing of create_transform and of its own: the picture's values, or the mean's colour as behind Normalize.
std::string erasing(const TransformCall& t, double p, const char* mode_name, const std::string& least,
                    const std::string& most, const std::string& ratio) {
  const Json& given = t.get(mode_name);
  const std::string mode = word_of(given);
  if (!given.is_null() && mode != "const" && mode != "rand" && mode != "pixel")
    t.cannot_read(mode_name, given, "'const', 'rand' or 'pixel'; write it");
  const bool is_noise = mode == "pixel" || mode == "rand";
  if (is_noise) t.note("its random values are a picture's, there those of a normal distribution");
  std::string fill;
  for (const double mean : t.conversion.mean)
    fill += concat(fill.empty() ? ",fill=" : ":", std::lround(255 * mean));
  return concat("random_erasing(", least, "..", most, ",", ratio, is_noise ? ",mode=noise" : fill,
                ",p=", number_text(p), ")");
}

TransformText for_validation(const TransformCall& t, const std::string& size) {
  const double share = t.value("crop_pct", 99, 0.875);
  std::string sides;
  for (const std::string& side : split(size, 'x')) {
    double value = 0;
    if (parse_double(side, &value))
      sides += concat(sides.empty() ? "" : "x", number_text(std::floor(value / share)));
  }
  const size_t cross = size.find('x');
  const bool is_square = cross != std::string::npos && size.substr(0, cross) == size.substr(cross + 1);
  if (is_square) sides = sides.substr(0, sides.find('x'));  // the shorter side
  return concat("resize(", sides, t.filter(), ") center_crop(", size, ")");
}

std::string for_training(const TransformCall& t, const std::string& size, const std::string& fill) {
  std::string chain = crop(t, size, "interpolation", 99, "bilinear");
  const auto with_chance = [&](const char* name, double fallback, const char* op) {
    const double p = t.value(name, 99, fallback);
    if (p > 0) chain += concat(" ", op, number_text(p), ")");
  };
  with_chance("hflip", 0.5, "hflip(");
  with_chance("vflip", 0, "vflip(");
  const Json& policy = t.get("auto_augment");
  if (policy.is_string() && !policy.as_string().empty())
    chain += " " + by_text(t, "auto_augment", policy.as_string(), fill).value_or("");
  const bool is_jittered = !policy.is_string() || policy.as_string().empty() || policy.as_string() == "3a";
  const Json& jitter = t.get("color_jitter");
  if (!jitter.is_null() && !jitter.is_number() && !jitter.is_array())
    t.cannot_read("color_jitter", jitter, "a number or a list of them; write its value");
  if (is_jittered && (jitter.is_null() || jitter.is_array() || jitter.as_double() > 0)) {
    const auto part = [&](size_t i) {
      if (!jitter.is_array()) return number_text(i == 3 ? 0 : t.value("color_jitter", 99, 0.4));
      return i < jitter.items().size() ? number_text(t.number("color_jitter", jitter.items()[i])) : "0";
    };
    const Json& p = t.get("color_jitter_prob");
    if (!p.is_null()) t.number("color_jitter_prob", p);  // says where it is none
    chain += concat(" color_jitter(", part(0), ",", part(1), ",", part(2), ",", part(3),
                    p.is_number() ? concat(",p=", number_text(p.as_double())) : std::string(), ")");
  }
  with_chance("grayscale_prob", 0, "grayscale(");
  with_chance("gaussian_blur_prob", 0, "gaussian_blur(23,0.1..2,");
  return chain;
}

TransformText made(const TransformCall& t) {
  TransformText size = input_size(t);
  if (!size) return size;
  const auto colour = [&](const char* name, const char* fallback) {
    const std::string given = t.list(name, t.get(name));
    return given.empty() ? std::string(fallback) : given;
  };
  t.normalize(colour("mean", "0.485:0.456:0.406"), colour("std", "0.229:0.224:0.225"));
  const Json& is_training = t.get("is_training", 1);
  if (!is_training.is_null() && !is_training.is_bool())
    t.cannot_read("is_training", is_training, "True or False; write it");
  if (!is_training.as_bool(false)) return for_validation(t, *size);
  std::string fill;
  for (const double mean : t.conversion.mean)
    fill += concat(fill.empty() ? ",fill=" : ":", std::min(std::lround(255 * mean), 255L));
  std::string chain = for_training(t, *size, fill);
  if (t.value("re_count", 99, 1) > 1) t.note("one rectangle is erased here, there up to re_count");
  if (const double p = t.value("re_prob", 99, 0); p > 0)
    chain += " " + erasing(t, p, "re_mode", "0.02", "1/3", "0.3..10/3");
  return chain;
}

}  // namespace

const TransformRules& timm_rules() {
  static const TransformRules all = {
      {"create_transform", made},
      {"rand_augment_transform", by_text_given},
      {"auto_augment_transform", by_text_given},
      {"augment_and_mix_transform", by_text_given},
      {"RandomResizedCropAndInterpolation",
       [](const TransformCall& t) -> TransformText {
         const TransformText size = t.size();
         return size ? TransformText(crop(t, *size, "interpolation", 3, "bilinear")) : size;
       }},
  };
  return all;
}

/// timm's RandomErasing has torchvision's name and other arguments.
TransformText timm_erasing(const TransformCall& t) {
  const std::string least = number_text(t.value("min_area", 99, 0.02));
  const std::string most = t.get("max_area").is_null() ? "1/3" : number_text(t.value("max_area", 99, 0));
  const double aspect = t.value("min_aspect", 99, 0.3);
  const std::string ratio = augment::range_text({aspect, t.value("max_aspect", 99, 1 / aspect)});
  if (t.value("max_count", 99, 1) > 1) t.note("one rectangle is erased here, there up to max_count");
  t.get("device"), t.get("num_splits"), t.get("min_count");  // how it goes about it
  return erasing(t, t.value("probability", 0, 0.5), "mode", least, most, ratio);
}

}  // namespace dlpipe::run
