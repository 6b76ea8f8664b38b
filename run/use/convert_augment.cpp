#include "dlpipe/run/use/convert_augment.h"

#include <algorithm>
#include <optional>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/use/transform_rules.h"
#include "dlpipe/run/use/transform_text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

Result<std::string> convert_one(const Json& call, Conversion& conversion);

/// The transforms inside, each converted; empty ones (left out) are dropped unless `keep` says that they count.
Result<std::vector<std::string>> convert_inner(const TransformCall& t) {
  std::vector<std::string> all;
  const Json& given = t.get("transforms", 0);
  std::vector<Json> inner = given.items();
  if (given.is_object()) inner = {given};
  if (!given.is_array() && inner.size() == 1) inner = t.call["args"].items();  // as torchvision prints them
  for (const Json& one : inner) {
    DLPIPE_ASSIGN_OR_RETURN(std::string expression, convert_one(one, t.conversion));
    if (!expression.empty()) all.push_back(std::move(expression));
  }
  return all;
}

std::string joined(const std::vector<std::string>& all, const char* between) {
  std::string text;
  for (const std::string& one : all) text += concat(text.empty() ? "" : between, one);
  return text;
}

/// What dlpipe does anyway, or nothing.
bool is_no_op(std::string_view name) {
  for (const std::string_view known :
       {"ToTensor", "ToTensorV2", "PILToTensor", "ToPILImage", "ToImage", "ToDtype", "ConvertImageDtype",
        "ToFloat", "NoOp", "Identity", "ToPureTensor", "ClampBoundingBoxes", "ClampBoundingBox",
        "ConvertBoundingBoxFormat"}) {
    if (name == known) return true;
  }
  return false;
}

/// What Albumentations' bbox_params drop, behind all else; empty: nothing.
std::string dropped_boxes(const TransformCall& t) {
  const Json& given = t.get("bbox_params");
  // Saved, its parameters; written in a program, the call A.BboxParams(...).
  const Json& params = given["kwargs"].is_object() ? given["kwargs"] : given;
  const auto number = [&](const char* name) {
    return params[name].is_null() ? 0 : t.number(name, params[name]);
  };
  const double share = number("min_visibility"), area = number("min_area");
  const double width = number("min_width"), height = number("min_height");
  if (share == 0 && area == 0 && width == 0 && height == 0) return {};
  if (width != height)
    t.note("min_width and min_height of its boxes are one number here, the larger of the two");
  return concat("drop_boxes(", number_text(share), ",", number_text(std::max(width, height)), ",",
                number_text(area), ")");
}

/// Those that hold others. Nothing: it is none of them.
Result<std::optional<std::string>> convert_container(const TransformCall& t) {
  const std::string name = t.name();
  const bool is_sequence =
      name == "Compose" || name == "Sequential" || name == "ReplayCompose" || name == "RandomApply";
  const bool is_choice = name == "OneOf" || name == "RandomChoice";
  if (!is_sequence && !is_choice && name != "SomeOf" && name != "RandomOrder")
    return std::optional<std::string>();
  const bool was_normalized = !t.conversion.normalize.empty();
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> inner, convert_inner(t));
  // Albumentations' Sequential runs half of the time, torch.nn's always.
  const bool is_half =
      name == "RandomApply" || name == "OneOf" || (name == "Sequential" && t.is_albumentations());
  const double fallback = is_half ? 0.5 : 1;
  const std::string p = t.p(fallback, name == "RandomApply" ? 1 : 99);
  const bool is_certain = is_sequence && p.empty();
  if (!is_certain && !was_normalized && !t.conversion.normalize.empty())
    t.conversion.result.no_equal.push_back(
        concat("Normalize: it stands in ", name, ", and pictures are always normalised here"));
  if (name == "Compose" || name == "ReplayCompose") {
    std::string dropped = dropped_boxes(t);
    if (!dropped.empty()) inner.push_back(std::move(dropped));
  }
  if (inner.empty()) return std::optional<std::string>("");
  if (is_sequence && p.empty()) return std::optional<std::string>(joined(inner, " "));
  if (is_sequence) return std::optional<std::string>(concat("one_of(", joined(inner, " "), p, ")"));
  if (is_choice) return std::optional<std::string>(concat("one_of(", joined(inner, " | "), p, ")"));
  if (name == "RandomOrder")
    return std::optional<std::string>(concat("any_order(", joined(inner, " | "), ")"));
  return std::optional<std::string>(
      concat("some_of(", number_text(t.value("n", 1, 1)), ", ", joined(inner, " | "), t.p(1), ")"));
}

/// albumentations' A.Resize(height, width, ...) as A.Resize((height, width), ...), which has torchvision's places.
Json with_one_size(const Json& call) {
  const auto& args = call["args"].items();
  const bool two_sides = args.size() >= 2 && args[0].is_number() && args[1].is_number();
  const std::string& name = call["name"].as_string();
  if (!two_sides ||
      (name != "Resize" && name != "CenterCrop" && name != "RandomCrop" && name != "RandomResizedCrop"))
    return call;
  Json::Array joined = {Json(Json::Array{args[0], args[1]})};
  joined.insert(joined.end(), args.begin() + 2, args.end());
  Json one = call;
  one.set("args", Json(std::move(joined)));
  return one;
}

Result<std::string> convert_one(const Json& written, Conversion& conversion) {
  const bool is_albumentations = TransformCall{written, conversion}.is_albumentations();
  const Json call = is_albumentations ? with_one_size(written) : written;
  const TransformCall t{call, conversion};
  ConvertedAugment& result = conversion.result;
  if (!call.is_object() || t.name().empty())
    return Status(ErrorCode::kCorrupt, concat("no transform, but ", printable(call.dump()).substr(0, 60)));
  if (is_no_op(t.name())) return std::string();
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<std::string> container, convert_container(t));
  if (container) return *container;
  const TransformRule rule = transform_rule(t.name());
  if (!rule) {
    result.no_equal.push_back(concat(printable(t.name()), ": dlpipe has no such op"));
    return std::string();
  }
  const size_t without = result.no_equal.size();
  const bool is_normalized = !conversion.normalize.empty();
  const std::optional<std::string> expression = rule(t);
  if (result.no_equal.size() > without) return std::string();
  if (is_normalized && t.name() != "RandomErasing")
    t.note("it stands behind Normalize, and goes before it here; its numbers are those of pixels");
  if (!call["module"].is_null()) t.note_unread();
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
  Conversion conversion;
  std::vector<std::string> all;
  for (const Json& call : calls) {
    const Result<std::string> one = convert_one(call, conversion);
    if (!one.ok()) return in_source(one.status());
    if (!one->empty()) all.push_back(*one);
  }
  if (!conversion.normalize.empty()) all.push_back(conversion.normalize);
  ConvertedAugment& result = conversion.result;
  result.expression = joined(all, " ");
  if (const auto parsed = augment::Chain::parse(result.expression); !parsed.ok())
    return in_source(parsed.status());
  return std::move(result);
}

}  // namespace dlpipe::run
