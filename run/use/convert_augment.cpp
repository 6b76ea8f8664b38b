#include "dlpipe/run/use/convert_augment.h"

#include <cmath>
#include <map>
#include <optional>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/value.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/use/transform_text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

std::string number(double value) {
  const std::string range = augment::range_text({value, value});
  return range.substr(0, range.find(".."));
}

/// One transform: its parameters by name, or by place as the library's signature has them.
struct Transform {
  const Json& call;
  ConvertedAugment& result;

  const Json& get(std::string_view name, size_t place = 99) const {
    const Json& named = call["kwargs"][name];
    if (!named.is_null() || place >= call["args"].items().size()) return named;
    return call["args"].items()[place];
  }
  double value(std::string_view name, size_t place, double fallback) const {
    return get(name, place).as_double(fallback);
  }
  std::string name() const { return call["name"].as_string(); }
  void note(const std::string& text) const { result.notes.push_back(concat(name(), ": ", text)); }

  /// "0.5..1.5", or one number; `fallback` where it isn't given.
  std::string range(std::string_view name, size_t place, const std::string& fallback, double scale = 1,
                    double add = 0) const {
    const Json& given = get(name, place);
    if (given.is_number()) return number(given.as_double() * scale + add);
    const Json& low = given.is_object() ? given["x"] : given;
    if (low.is_array() && low.items().size() >= 2)
      return augment::range_text(
          {low.items()[0].as_double() * scale + add, low.items()[1].as_double() * scale + add});
    return fallback;
  }
  /// Whole numbers of a range.
  std::string ints(std::string_view name, const std::string& fallback) const {
    return range(name, 99, fallback);
  }
  /// "HxW", or one number.
  std::optional<std::string> size(std::string_view name = "size", size_t place = 0) const {
    const Json& given = get(name, place);
    if (given.is_number()) return number(given.as_double());
    if (given.is_array() && given.items().size() == 1) return number(given.items()[0].as_double());
    if (given.is_array() && given.items().size() == 2)
      return concat(number(given.items()[0].as_double()), "x", number(given.items()[1].as_double()));
    const Json& height = get("height", 0);
    const Json& width = get("width", 1);
    if (height.is_number() && width.is_number())
      return concat(number(height.as_double()), "x", number(width.as_double()));
    return std::nullopt;
  }
  std::string p(double fallback, size_t place = 99) const {
    const double given = value("p", place, fallback);
    return given == 1 ? std::string() : concat(",p=", number(given));
  }
  /// The filter of a resize. OpenCV's numbers, Pillow's and torchvision's words.
  std::string filter(size_t place = 99) const {
    const Json& given = get("interpolation", place);
    static const std::map<std::string, std::string> known = {{"0", "nearest"},
                                                             {"1", "bilinear"},
                                                             {"2", "bicubic"},
                                                             {"3", "area"},
                                                             {"4", "lanczos"},
                                                             {"nearest", "nearest"},
                                                             {"nearest-exact", "nearest"},
                                                             {"bilinear", "bilinear"},
                                                             {"bicubic", "bicubic"},
                                                             {"lanczos", "lanczos"},
                                                             {"box", "area"}};
    std::string word = given.is_string() ? given.as_string() : given.dump();
    word = word.substr(word.rfind('.') == std::string::npos ? 0 : word.rfind('.') + 1);
    for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    const auto found = known.find(word);
    return found == known.end() || found->second == "bilinear" ? std::string()
                                                               : concat(",interpolation=", found->second);
  }
  /// Of a warp, which knows two.
  std::string warp_filter(const char* fallback) const {
    if (get("interpolation").is_null()) return concat(",interpolation=", fallback);
    const std::string word = filter();
    return concat(",interpolation=", word == ",interpolation=nearest" ? "nearest" : "bilinear");
  }
  std::string fill(std::string_view name = "fill") const {
    const Json& given = get(name);
    if (given.is_number())
      return given.as_double() == 0 ? std::string() : concat(",fill=", number(given.as_double()));
    std::string values;
    for (const Json& one : given.items())
      values += concat(values.empty() ? "" : ":", number(one.as_double()));
    return values.empty() ? std::string() : concat(",fill=", values);
  }
  std::string list(std::string_view name, size_t place) const {
    std::string values;
    for (const Json& one : get(name, place).items())
      values += concat(values.empty() ? "" : ":", number(one.as_double()));
    return values.empty() ? number(value(name, place, 0.5)) : values;
  }
};

Result<std::string> convert_one(const Json& call, ConvertedAugment& result);

/// The transforms inside, each converted; empty ones (left out) are dropped unless `keep` says that they count.
Result<std::vector<std::string>> convert_inner(const Transform& t) {
  std::vector<std::string> all;
  const Json& given = t.get("transforms", 0);
  std::vector<Json> inner = given.items();
  if (given.is_object()) inner = {given};
  if (!given.is_array() && inner.size() == 1) inner = t.call["args"].items();  // as torchvision prints them
  for (const Json& one : inner) {
    DLPIPE_ASSIGN_OR_RETURN(std::string expression, convert_one(one, t.result));
    if (!expression.empty()) all.push_back(std::move(expression));
  }
  return all;
}

std::string joined(const std::vector<std::string>& all, const char* between) {
  std::string text;
  for (const std::string& one : all) text += concat(text.empty() ? "" : between, one);
  return text;
}

// A transform's expression; nothing where it has no equal. Names that both libraries use take the parameters of either.
using Rule = std::optional<std::string> (*)(const Transform& t);

const std::map<std::string, Rule, std::less<>>& rules() {
  using Text = std::optional<std::string>;
  static const std::map<std::string, Rule, std::less<>> all = {
      // sizes and places
      {"RandomResizedCrop",
       [](const Transform& t) -> Text {
         const Text size = t.size();
         if (!size) return size;
         const std::string scale = t.range("scale", 1, "0.08..1");
         const std::string ratio = t.range("ratio", 2, "3/4..4/3");
         return concat("rrc(", *size, ",", scale, ",", ratio, t.filter(3), ")");
       }},
      {"Resize",
       [](const Transform& t) -> Text {
         const Text size = t.size();
         return size ? Text(concat("resize(", *size, t.filter(1), ")")) : size;
       }},
      {"SmallestMaxSize",
       [](const Transform& t) -> Text {
         const Text size = t.size("max_size");
         return size ? Text(concat("resize(", *size, t.filter(), ")")) : size;
       }},
      {"LongestMaxSize",
       [](const Transform& t) -> Text {
         const Text size = t.size("max_size");
         return size ? Text(concat("resize(", *size, t.filter(), ",side=longer)")) : size;
       }},
      {"CenterCrop",
       [](const Transform& t) -> Text {
         return t.size() ? Text(concat("center_crop(", *t.size(), ")")) : t.size();
       }},
      {"RandomCrop",
       [](const Transform& t) -> Text {
         const Text size = t.size();
         const Json& padding = t.get("padding", 1);
         if (!size || padding.is_null()) return size ? Text(concat("random_crop(", *size, ")")) : size;
         if (!padding.is_number()) return concat("pad(", t.list("padding", 1), ") random_crop(", *size, ")");
         const bool reflect = t.get("padding_mode").as_string() == "reflect";
         return concat("pad_crop(", *size, ",", number(padding.as_double()), reflect ? ",reflect)" : ")");
       }},
      {"PadIfNeeded",
       [](const Transform& t) -> Text {
         const std::string height = number(t.value("min_height", 0, 1)),
                           width = number(t.value("min_width", 1, 1));
         return concat("pad_to(", height, "x", width, t.get("border_mode").as_int() == 4 ? ",reflect" : "",
                       t.fill(), ")");
       }},
      {"Pad",
       [](const Transform& t) -> Text {
         const std::string mode =
             t.get("padding_mode", 2).is_null() ? "constant" : t.get("padding_mode", 2).as_string();
         return concat("pad(", t.list("padding", 0), ",", mode, t.fill(), ")");
       }},
      // flips and turns
      {"RandomHorizontalFlip",
       [](const Transform& t) -> Text { return concat("hflip(", number(t.value("p", 0, 0.5)), ")"); }},
      {"RandomVerticalFlip",
       [](const Transform& t) -> Text { return concat("vflip(", number(t.value("p", 0, 0.5)), ")"); }},
      {"HorizontalFlip",
       [](const Transform& t) -> Text { return concat("hflip(", number(t.value("p", 99, 0.5)), ")"); }},
      {"VerticalFlip",
       [](const Transform& t) -> Text { return concat("vflip(", number(t.value("p", 99, 0.5)), ")"); }},
      {"Transpose",
       [](const Transform& t) -> Text { return concat("transpose(", number(t.value("p", 99, 0.5)), ")"); }},
      {"RandomRotate90", [](const Transform& t) -> Text { return concat("rot90(0..3", t.p(0.5), ")"); }},
      {"RandomRotation",
       [](const Transform& t) -> Text {
         return concat("rotate(", t.range("degrees", 0, "0"), t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"Rotate",
       [](const Transform& t) -> Text {
         return concat("rotate(", t.range("limit", 0, "90"), t.warp_filter("bilinear"), t.fill(), t.p(0.5),
                       ")");
       }},
      {"RandomAffine",
       [](const Transform& t) -> Text {
         const Json& move = t.get("translate", 1);
         const auto share = [&](size_t i) {
           return number(i < move.items().size() ? move.items()[i].as_double() : 0);
         };
         return concat("affine(", t.range("degrees", 0, "0"), ",", share(0), ",", share(1), ",",
                       t.range("scale", 2, "1"), ",", t.range("shear", 3, "0"), t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"Affine",
       [](const Transform& t) -> Text {
         const auto of = [&](const char* name, const char* axis, const char* fallback) {
           const Json& range = t.get(name)[axis];
           if (range.items().size() != 2) return std::string(fallback);
           return augment::range_text({range.items()[0].as_double(), range.items()[1].as_double()});
         };
         if (!t.get("translate_percent")["x"].is_array() && of("translate_px", "x", "0..0") != "0..0")
           t.note("moves in pixels are left out; write translate(x, y, pixels)");
         return concat("affine(", t.range("rotate", 99, "0..0"), ",", of("translate_percent", "x", "0"), ",",
                       of("translate_percent", "y", "0"), ",", of("scale", "x", "1"), ",",
                       of("shear", "x", "0"), ",", of("shear", "y", "0"), t.warp_filter("bilinear"), t.fill(),
                       t.p(0.5), ")");
       }},
      {"RandomPerspective",
       [](const Transform& t) -> Text {
         return concat("perspective(", number(t.value("distortion_scale", 0, 0.5)), t.warp_filter("bilinear"),
                       t.fill(), ",p=", number(t.value("p", 1, 0.5)), ")");
       }},
      {"GridDistortion",
       [](const Transform& t) -> Text {
         return concat("grid_distortion(", number(t.value("num_steps", 0, 5)), ",",
                       t.range("distort_limit", 1, "0.3"), t.warp_filter("bilinear"), t.p(0.5), ")");
       }},
      {"ElasticTransform",
       [](const Transform& t) -> Text {
         t.note(
             "elastic draws its field in another way; its alpha is the largest move in pixels, so look at "
             "dlpipe preview");
         return concat("elastic(8,32", t.warp_filter("bilinear"), t.p(t.get("p").is_null() ? 1 : 0.5), ")");
       }},
      // colours
      {"ColorJitter",
       [](const Transform& t) -> Text {
         return concat("color_jitter(", t.range("brightness", 0, "0"), ",", t.range("contrast", 1, "0"), ",",
                       t.range("saturation", 2, "0"), ",", t.range("hue", 3, "0"), t.p(1), ")");
       }},
      {"RandomBrightnessContrast",
       [](const Transform& t) -> Text {
         t.note("brightness is a factor here, there a share of 255 that is added");
         return concat("one_of(brightness(", t.range("brightness_limit", 0, "0.2", 1, 1), ") contrast(",
                       t.range("contrast_limit", 1, "0.2", 1, 1), ")", t.p(0.5), ")");
       }},
      {"HueSaturationValue",
       [](const Transform& t) -> Text {
         t.note("saturation and value are factors here, there numbers that are added");
         return concat("one_of(hue(", t.range("hue_shift_limit", 0, "0.1", 1.0 / 180), ") saturation(",
                       t.range("sat_shift_limit", 1, "0.1", 1.0 / 255, 1), ") brightness(",
                       t.range("val_shift_limit", 2, "0.1", 1.0 / 255, 1), ")", t.p(0.5), ")");
       }},
      {"RandomGrayscale",
       [](const Transform& t) -> Text { return concat("grayscale(", number(t.value("p", 0, 0.1)), ")"); }},
      {"Grayscale", [](const Transform&) -> Text { return "grayscale"; }},
      {"ToGray",
       [](const Transform& t) -> Text { return concat("grayscale(", number(t.value("p", 99, 0.5)), ")"); }},
      {"RandomInvert",
       [](const Transform& t) -> Text { return concat("invert(", number(t.value("p", 0, 0.5)), ")"); }},
      {"InvertImg",
       [](const Transform& t) -> Text { return concat("invert(", number(t.value("p", 99, 0.5)), ")"); }},
      {"RandomPosterize",
       [](const Transform& t) -> Text {
         return concat("posterize(", number(t.value("bits", 0, 4)), ",", number(t.value("p", 1, 0.5)), ")");
       }},
      {"Posterize",
       [](const Transform& t) -> Text {
         return concat("posterize(", t.ints("num_bits", "4"), t.p(0.5), ")");
       }},
      {"RandomSolarize",
       [](const Transform& t) -> Text {
         return concat("solarize(", number(t.value("threshold", 0, 128)), ",", number(t.value("p", 1, 0.5)),
                       ")");
       }},
      {"Solarize",
       [](const Transform& t) -> Text {
         return concat("solarize(", t.range("threshold_range", 0, "128", 255), t.p(0.5), ")");
       }},
      {"RandomAdjustSharpness",
       [](const Transform& t) -> Text {
         const std::string factor = number(t.value("sharpness_factor", 0, 1));
         return concat("sharpness(", factor, "..", factor, ",", number(t.value("p", 1, 0.5)), ")");
       }},
      {"RandomAutocontrast",
       [](const Transform& t) -> Text { return concat("autocontrast(", number(t.value("p", 0, 0.5)), ")"); }},
      {"AutoContrast",
       [](const Transform& t) -> Text {
         return concat("autocontrast(", number(t.value("p", 99, 0.5)), ")");
       }},
      {"RandomEqualize",
       [](const Transform& t) -> Text { return concat("equalize(", number(t.value("p", 0, 0.5)), ")"); }},
      {"Equalize",
       [](const Transform& t) -> Text { return concat("equalize(", number(t.value("p", 99, 0.5)), ")"); }},
      {"RandomGamma",
       [](const Transform& t) -> Text {
         return concat("gamma(", t.range("gamma_limit", 0, "0.8..1.2", 0.01), t.p(0.5), ")");
       }},
      {"FancyPCA",
       [](const Transform& t) -> Text {
         t.note("the components are ImageNet's, there each picture's own");
         return concat("fancy_pca(", number(t.value("alpha", 0, 0.1)), t.p(0.5), ")");
       }},
      {"ChannelShuffle",
       [](const Transform& t) -> Text {
         return concat("channel_shuffle(", number(t.value("p", 99, 0.5)), ")");
       }},
      {"RandomChannelPermutation", [](const Transform&) -> Text { return "channel_shuffle"; }},
      {"ChannelDropout",
       [](const Transform& t) -> Text {
         return concat("channel_drop(", t.ints("channel_drop_range", "1"), t.p(0.5), ")");
       }},
      // blurs, noise, holes
      {"GaussianBlur",
       [](const Transform& t) -> Text {
         const Json& kernel = t.get("kernel_size", 0);
         const std::string sigma = t.range("sigma_limit", 99, t.range("sigma", 1, "0.1..2"));
         const int64_t size =
             kernel.is_array() && !kernel.items().empty() ? kernel.items()[0].as_int() : kernel.as_int();
         return concat("gaussian_blur(", size > 0 ? concat("size=", size, ",") : std::string(),
                       "sigma=", sigma, t.p(t.get("sigma_limit").is_null() ? 1 : 0.5), ")");
       }},
      {"Blur",
       [](const Transform& t) -> Text {
         return concat("box_blur(", t.ints("blur_limit", "3..7"), t.p(0.5), ")");
       }},
      {"MedianBlur",
       [](const Transform& t) -> Text {
         return concat("median_blur(", t.ints("blur_limit", "3..7"), t.p(0.5), ")");
       }},
      {"MotionBlur",
       [](const Transform& t) -> Text {
         return concat("motion_blur(", t.ints("blur_limit", "3..7"), ",",
                       t.range("angle_range", 99, "0..360"), t.p(0.5), ")");
       }},
      {"UnsharpMask",
       [](const Transform& t) -> Text {
         return concat("unsharp(", t.range("sigma_limit", 99, "1"), ",", t.range("alpha", 99, "0.2..0.5"),
                       t.p(0.5), ")");
       }},
      {"Emboss",
       [](const Transform& t) -> Text {
         return concat("emboss(", t.range("alpha", 0, "0.2..0.5"), ",", t.range("strength", 1, "0.2..0.7"),
                       t.p(0.5), ")");
       }},
      {"Downscale",
       [](const Transform& t) -> Text {
         return concat("downscale(", t.range("scale_range", 0, "0.25"), t.p(0.5), ")");
       }},
      {"GaussNoise",
       [](const Transform& t) -> Text {
         return concat("gaussian_noise(", t.range("std_range", 0, "0.2..0.44"), ",",
                       t.range("mean_range", 1, "0"), t.p(0.5), ")");
       }},
      {"GaussianNoise",
       [](const Transform& t) -> Text {
         return concat("gaussian_noise(", number(t.value("sigma", 1, 0.1)), ",",
                       number(t.value("mean", 0, 0)), ")");
       }},
      {"ISONoise",
       [](const Transform& t) -> Text {
         t.note("the noise is drawn in RGB, there in HLS");
         return concat("iso_noise(", t.range("color_shift", 0, "0.01..0.05"), ",",
                       t.range("intensity", 1, "0.1..0.5"), t.p(0.5), ")");
       }},
      {"CoarseDropout",
       [](const Transform& t) -> Text {
         return concat("coarse_dropout(", t.ints("num_holes_range", "1..2"), ",",
                       t.range("hole_height_range", 99, "0.1..0.2"), ",",
                       t.range("hole_width_range", 99, "0.1..0.2"), t.fill(), t.p(0.5), ")");
       }},
      {"RandomErasing",
       [](const Transform& t) -> Text {
         const bool noise = t.get("value", 3).as_string() == "random";
         return concat("random_erasing(", t.range("scale", 1, "0.02..0.33"), ",",
                       t.range("ratio", 2, "0.3..3.3"), noise ? ",mode=noise" : t.fill("value"),
                       ",p=", number(t.value("p", 0, 0.5)), ")");
       }},
      {"Erasing",
       [](const Transform& t) -> Text {
         return concat("random_erasing(", t.range("scale", 0, "0.02..0.33"), ",",
                       t.range("ratio", 1, "0.3..3.3"), t.fill(), ",p=", number(t.value("p", 99, 0.5)), ")");
       }},
      // policies
      {"RandAugment",
       [](const Transform& t) -> Text {
         return concat("randaugment(", number(t.value("num_ops", 0, 2)), ",",
                       number(t.value("magnitude", 1, 9)), ",", number(t.value("num_magnitude_bins", 2, 31)),
                       t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"TrivialAugmentWide",
       [](const Transform& t) -> Text {
         return concat("trivial_augment(", number(t.value("num_magnitude_bins", 0, 31)),
                       t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"AutoAugment",
       [](const Transform& t) -> Text {
         std::string policy = t.get("policy", 0).as_string();
         policy = policy.substr(policy.rfind('.') == std::string::npos ? 0 : policy.rfind('.') + 1);
         for (char& c : policy) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
         return concat("auto_augment(", policy.empty() ? "imagenet" : policy, t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"AugMix",
       [](const Transform& t) -> Text {
         return concat("augmix(", number(t.value("severity", 0, 3)), ",",
                       number(t.value("mixture_width", 1, 3)), ",alpha=", number(t.value("alpha", 3, 1)),
                       t.warp_filter("bilinear"), t.fill(), ")");
       }},
      {"Normalize",
       [](const Transform& t) -> Text {
         return concat("normalize(", t.list("mean", 0), ",", t.list("std", 1), ")");
       }},
  };
  return all;
}

/// What dlpipe does anyway, or nothing.
bool is_no_op(std::string_view name) {
  for (const std::string_view known :
       {"ToTensor", "ToTensorV2", "PILToTensor", "ToPILImage", "ToImage", "ToDtype", "ConvertImageDtype",
        "ToFloat", "NoOp", "Identity", "ToPureTensor"}) {
    if (name == known) return true;
  }
  return false;
}

/// Those that hold others. Nothing: it is none of them.
Result<std::optional<std::string>> convert_container(const Transform& t) {
  const std::string name = t.name();
  const bool is_sequence =
      name == "Compose" || name == "Sequential" || name == "ReplayCompose" || name == "RandomApply";
  const bool is_choice = name == "OneOf" || name == "RandomChoice";
  if (!is_sequence && !is_choice && name != "SomeOf" && name != "RandomOrder")
    return std::optional<std::string>();
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> inner, convert_inner(t));
  if (inner.empty()) return std::optional<std::string>("");
  const double fallback = name == "RandomApply" || name == "OneOf" || name == "Sequential" ? 0.5 : 1;
  const std::string p = t.p(fallback, name == "RandomApply" ? 1 : 99);
  if (is_sequence && p.empty()) return std::optional<std::string>(joined(inner, " "));
  if (is_sequence) return std::optional<std::string>(concat("one_of(", joined(inner, " "), p, ")"));
  if (is_choice) return std::optional<std::string>(concat("one_of(", joined(inner, " | "), p, ")"));
  if (name == "RandomOrder")
    return std::optional<std::string>(concat("any_order(", joined(inner, " | "), ")"));
  return std::optional<std::string>(
      concat("some_of(", number(t.value("n", 1, 1)), ", ", joined(inner, " | "), t.p(1), ")"));
}

Result<std::string> convert_one(const Json& call, ConvertedAugment& result) {
  const Transform t{call, result};
  if (!call.is_object() || t.name().empty())
    return Status(ErrorCode::kCorrupt, concat("no transform, but ", printable(call.dump()).substr(0, 60)));
  if (is_no_op(t.name())) return std::string();
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<std::string> container, convert_container(t));
  if (container) return *container;
  const auto rule = rules().find(t.name());
  if (rule == rules().end()) {
    result.no_equal.push_back(concat(printable(t.name()), ": dlpipe has no such op"));
    return std::string();
  }
  const std::optional<std::string> expression = rule->second(t);
  if (!expression) {
    result.no_equal.push_back(concat(t.name(), ": its size is not given"));
    return std::string();
  }
  if (const auto parsed = augment::Chain::parse(*expression); !parsed.ok()) {
    result.no_equal.push_back(
        concat(t.name(), ": as ", *expression, " it is refused: ", parsed.status().message()));
    return std::string();
  }
  return *expression;
}

/// Albumentations' tree in the form of calls.
Json as_call(const Json& saved) {
  Json kwargs = Json::object();
  for (const auto& [key, value] : saved.members()) {
    if (key == "transforms") {
      Json inner = Json::array();
      for (const Json& one : value.items()) inner.push_back(as_call(one));
      kwargs.set(key, std::move(inner));
    } else if (key != "__class_fullname__") {
      kwargs.set(key, value);
    }
  }
  const std::string& name = saved["__class_fullname__"].as_string();
  const size_t dot = name.rfind('.');
  return Json::object({{"name", dot == std::string::npos ? name : name.substr(dot + 1)},
                       {"args", Json::array()},
                       {"kwargs", std::move(kwargs)}});
}

}  // namespace

Result<ConvertedAugment> convert_augment(std::string_view text, std::string_view source) {
  const auto in_source = [&](const Status& status) {
    return Status(ErrorCode::kCorrupt, concat("[convert-augment] ", source, ": ", status.message()));
  };
  const bool is_json = trim(text).starts_with("{");
  const bool is_saved = text.find("__class_fullname__") != std::string_view::npos;
  Result<Json> tree =
      is_json ? Json::parse(text) : (is_saved ? parse_block_yaml(text) : parse_transform_calls(text));
  if (!tree.ok()) return in_source(tree.status());
  std::vector<Json> calls;
  if (is_json || is_saved) {
    const Json& saved = (*tree)["transform"];
    if (!saved.is_object())
      return in_source({ErrorCode::kCorrupt, "no 'transform' in it; save it with albumentations.save"});
    calls.push_back(as_call(saved));
  } else {
    calls = tree->items();
  }
  ConvertedAugment result;
  std::vector<std::string> all;
  for (const Json& call : calls) {
    const Result<std::string> one = convert_one(call, result);
    if (!one.ok()) return in_source(one.status());
    if (!one->empty()) all.push_back(*one);
  }
  result.expression = joined(all, " ");
  if (const auto parsed = augment::Chain::parse(result.expression); !parsed.ok())
    return in_source(parsed.status());
  return result;
}

}  // namespace dlpipe::run
