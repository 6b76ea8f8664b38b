#include "dlpipe/run/convert/convert_augment.h"

#include <algorithm>
#include <optional>
#include <set>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/convert/script_recipes.h"
#include "dlpipe/run/convert/transform_rules.h"
#include "dlpipe/run/convert/transform_text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

Result<std::string> convert_one(const Json& call, Conversion& conversion);

/// A transform that is held by another, and how often it is chosen in proportion.
struct Alternative {
  std::string expression;  // "": it is left out, or does nothing here
  double weight = 1;
  bool is_no_op = false;
};

/// What Albumentations' choices take for a weight: the transform's p.
double chance_of(const Json& call) {
  static const std::set<std::string_view> certain = {"Resize",
                                                     "RandomCrop",
                                                     "CenterCrop",
                                                     "RandomResizedCrop",
                                                     "SmallestMaxSize",
                                                     "LongestMaxSize",
                                                     "PadIfNeeded",
                                                     "RandomRotate90",
                                                     "Normalize",
                                                     "D4",
                                                     "BBoxSafeRandomCrop",
                                                     "RandomSizedBBoxSafeCrop",
                                                     "SquareSymmetry",
                                                     "Compose",
                                                     "ReplayCompose",
                                                     "SomeOf",
                                                     "RandomOrder"};
  const Json& p = call["kwargs"]["p"];
  if (p.is_number()) return p.as_double();
  return certain.contains(call["name"].as_string()) ? 1 : 0.5;
}

/// The transform as a choice of Albumentations runs it: whatever its p is.
Json forced(const Json& call) {
  const std::string& name = call["name"].as_string();
  // These don't ask whether they are forced: their p is kept, or means something else.
  if (name == "SomeOf" || name == "RandomOrder" || name == "OneOrOther") return call;
  Json kwargs = call["kwargs"];
  kwargs.set("p", 1);
  Json one = call;
  one.set("kwargs", std::move(kwargs));
  return one;
}

/// The transforms inside, each converted. `is_forced`: whatever their p is; `is_choice`: each takes the picture that comes to all.
Result<std::vector<Alternative>> convert_inner(const TransformCall& t, bool is_forced, bool is_choice) {
  std::vector<Alternative> all;
  const Json& given = t.get("transforms", 0);
  std::vector<Json> inner = given.items();
  if (given.is_object()) inner = {given};
  if (given.is_string()) t.cannot_read("transforms", given, "a list of transforms");
  if (!given.is_array() && (inner.size() == 1 || given["name"].is_string()))
    inner = t.call["args"].items();              // as torchvision prints them
  for (const char* one : {"first", "second"}) {  // OneOrOther's
    if (t.name() == "OneOrOther" && t.get(one).is_object()) inner.push_back(t.get(one));
  }
  const augment::ImageSize before = t.conversion.size;
  for (const Json& one : inner) {
    if (is_choice) t.conversion.size = before;
    DLPIPE_ASSIGN_OR_RETURN(std::string expression, convert_one(is_forced ? forced(one) : one, t.conversion));
    all.push_back({std::move(expression), chance_of(one), is_no_op(one["name"].as_string())});
  }
  return all;
}

std::string joined(const std::vector<Alternative>& all, const char* between) {
  std::string text;
  for (const Alternative& one : all) {
    if (!one.expression.empty()) text += concat(text.empty() ? "" : between, one.expression);
  }
  return text;
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

/// one_of(...) of those that are left, with weights where they differ. What does nothing keeps its share, as a lower p.
std::string choice(std::vector<Alternative> all, double p) {
  double total = 0, idle = 0;
  for (const Alternative& one : all) {
    if (one.is_no_op) idle += one.weight;
    if (one.is_no_op || !one.expression.empty()) total += one.weight;
  }
  std::erase_if(all, [](const Alternative& one) { return one.expression.empty(); });
  if (all.empty()) return {};
  if (idle > 0) p *= 1 - idle / total;
  std::string weights;
  bool differ = false;
  for (const Alternative& one : all) {
    weights += concat(weights.empty() ? ",weights=" : ":", number_text(one.weight));
    differ |= one.weight != all[0].weight;
  }
  return concat("one_of(", joined(all, " | "), p == 1 ? std::string() : concat(",p=", number_text(p)),
                differ ? weights : std::string(), ")");
}

/// Albumentations' SomeOf and RandomOrder, and torchvision's RandomOrder, which runs all.
std::string several(const TransformCall& t, const std::vector<Alternative>& all) {
  const auto count = static_cast<double>(
      std::ranges::count_if(all, [](const Alternative& one) { return !one.expression.empty(); }));
  const bool is_order = t.name() == "RandomOrder";
  const bool runs_all = is_order && !t.is_saved() && !t.is_albumentations();
  const double n = runs_all ? count : std::min(t.value("n", 1, 1), count);
  const std::string p = t.p(1);
  if (is_order && n == count) return concat("any_order(", joined(all, " | "), p, ")");
  if (is_order && n > 1) t.note("those that are drawn run in the order in which they are written");
  const bool are_weighted =
      t.conversion.is_first_albumentations &&
      std::ranges::any_of(all, [&](const Alternative& one) { return one.weight != all[0].weight; });
  if (are_weighted) t.note("all are drawn equally often, there by their p as weights");
  return concat("some_of(", number_text(n), ", ", joined(all, " | "), p, ")");
}

/// Those that hold others. Nothing: it is none of them.
Result<std::optional<std::string>> convert_container(const TransformCall& t) {
  const std::string name = t.name();
  const bool is_compose = name == "Compose" || name == "ReplayCompose";
  const bool is_sequence = is_compose || name == "Sequential" || name == "RandomApply";
  const bool is_one = name == "OneOf" || name == "OneOrOther";
  const bool is_choice = is_one || name == "RandomChoice";
  const bool is_several = name == "SomeOf" || name == "RandomOrder";
  if (!is_sequence && !is_choice && !is_several) return std::optional<std::string>();
  const bool was_normalized = !t.conversion.normalize.empty();
  // SomeOf of releases 1.x ran what it drew, as OneOf does; later ones ask each for its p.
  const bool is_forced = is_one || (name == "SomeOf" && t.conversion.is_first_albumentations);
  DLPIPE_ASSIGN_OR_RETURN(std::vector<Alternative> inner, convert_inner(t, is_forced, is_choice));
  const size_t without = t.conversion.result.no_equal.size();
  // Albumentations' Sequential runs half of the time, torch.nn's always.
  const bool is_half =
      name == "RandomApply" || is_one || (name == "Sequential" && (t.is_albumentations() || t.is_saved()));
  double p = 1;
  if (name == "RandomChoice") {  // its p are weights
    const Json& given = t.get("p", 1);
    for (size_t i = 0; i < inner.size(); ++i)
      inner[i].weight = i < given.items().size() ? t.number("p", given.items()[i]) : 1;
    if (!given.is_null() && given.items().size() != inner.size())
      t.cannot_read("p", given, "a number for each transform");
  } else {
    p = t.value("p", name == "RandomApply" ? 1 : 99, is_half ? 0.5 : 1);
  }
  if (name == "OneOrOther") {  // the first with p, else the last
    for (size_t i = 0; i < inner.size(); ++i)
      inner[i].weight = i == 0 ? p : (i + 1 == inner.size() ? 1 - p : 0);
    std::erase_if(inner, [](const Alternative& one) { return one.weight <= 0; });
    p = 1;
  }
  std::string text = joined(inner, " ");
  if (is_compose) {
    const std::string dropped = dropped_boxes(t);
    text += concat(text.empty() || dropped.empty() ? "" : " ", dropped);
  }
  if (is_sequence && p != 1 && !text.empty()) text = concat("one_of(", text, ",p=", number_text(p), ")");
  if (is_choice) text = choice(inner, p);
  if (is_several && !text.empty()) text = several(t, inner);
  t.note_unread();
  if (t.conversion.result.no_equal.size() > without) text.clear();
  const bool is_certain = is_sequence && p == 1;
  if (!is_certain && !was_normalized && !t.conversion.normalize.empty())
    t.conversion.result.no_equal.push_back(
        concat("Normalize: it stands in ", name, ", and pictures are always normalised here"));
  return std::optional<std::string>(text);
}

/// albumentations' A.Resize(height, width, ...) as A.Resize((height, width), ...), which has torchvision's places.
Json with_one_size(const Json& call) {
  const auto& args = call["args"].items();
  const bool two_sides = args.size() >= 2 && args[0].is_number() && args[1].is_number();
  const std::string& name = call["name"].as_string();
  if (!two_sides || (name != "Resize" && name != "CenterCrop" && name != "RandomCrop" &&
                     name != "RandomResizedCrop" && name != "RandomSizedBBoxSafeCrop"))
    return call;
  Json::Array joined = {Json(Json::Array{args[0], args[1]})};
  joined.insert(joined.end(), args.begin() + 2, args.end());
  Json one = call;
  one.set("args", Json(std::move(joined)));
  return one;
}

std::string_view why_no_rule(const std::string& name) {
  const std::string lower = last_word(name);
  if (name == "Lambda")
    return "Python code of your own; dlpipe.Loader runs such over batches, with transform=, or compiled "
           "(dlpipe.add_augmentation)";
  if (lower == "mixup")
    return "it mixes batches, as `dlpipe train --mixup ALPHA` and mixup= of dlpipe.Loader do";
  if (lower == "cutmix")
    return "it mixes batches, as `dlpipe train --cutmix ALPHA` and cutmix= of dlpipe.Loader do";
  return "dlpipe has no such op";
}

Result<std::string> convert_call(const Json& written, Conversion& conversion) {
  const bool is_albumentations = TransformCall{written, conversion}.is_albumentations();
  const Json call = is_albumentations ? with_one_size(written) : written;
  const TransformCall t{call, conversion};
  ConvertedAugment& result = conversion.result;
  if (t.name().empty()) {  // not written as a call
    const std::string& text = call["text"].as_string();
    const std::string shown = !text.empty() ? text : (call.is_string() ? call.as_string() : call.dump());
    result.no_equal.push_back(
        concat(printable(shown).substr(0, 200), ": it is known only when the program runs"));
    return std::string();
  }
  if (is_no_op(t.name())) return std::string();
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<std::string> container, convert_container(t));
  if (container) return *container;
  const TransformRule rule = transform_rule(t.name());
  if (!rule) {
    result.no_equal.push_back(concat(printable(t.name()), ": ", why_no_rule(t.name())));
    return std::string();
  }
  const size_t without = result.no_equal.size();
  const bool is_normalized = !conversion.normalize.empty();
  const std::optional<std::string> expression = rule(t);
  if (result.no_equal.size() > without) return std::string();
  if (is_normalized && t.name() != "RandomErasing")
    t.note("it stands behind Normalize, and goes before it here; its numbers are those of pixels");
  t.note_unread();
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

/// Says of each message that has come since `from` where in a text of several lines the call stands.
void place(std::vector<std::string>& messages, size_t& from, const Json& call) {
  for (; from < messages.size(); ++from) {
    if (call["line"].is_integer())
      messages[from] = concat("line ", call["line"].as_int(), ": ", messages[from]);
  }
}

/// Keeps what is known of the picture's size.
Result<std::string> convert_one(const Json& written, Conversion& conversion) {
  const augment::ImageSize before = conversion.size;
  DLPIPE_ASSIGN_OR_RETURN(std::string expression, convert_call(written, conversion));
  place(conversion.result.no_equal, conversion.placed_no_equal, written);
  place(conversion.result.notes, conversion.placed_notes, written);
  conversion.size = before;
  if (expression.empty()) return expression;
  if (const auto chain = augment::Chain::parse(expression); chain.ok()) {
    const Result<augment::ImageSize> size = chain->output(before);
    conversion.size = size.ok() ? *size : augment::ImageSize{};
  }
  return expression;
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

/// All transforms of a recipe. What its expression is refused for stands among what has no equal.
Result<ConvertedAugment> convert_all(const std::vector<Json>& calls, Conversion conversion) {
  std::vector<Alternative> all;
  for (const Json& call : calls) {
    DLPIPE_ASSIGN_OR_RETURN(std::string one, convert_one(call, conversion));
    all.push_back({std::move(one)});
  }
  all.push_back({conversion.normalize});
  ConvertedAugment& result = conversion.result;
  result.expression = joined(all, " ");
  if (const auto parsed = augment::Chain::parse(result.expression); !parsed.ok()) {
    result.no_equal.push_back(
        concat("all together: as ", result.expression, " it is refused: ", parsed.status().message()));
    result.expression.clear();
  }
  return std::move(result);
}

/// What albumentations.save wrote.
Result<ConvertedAugment> convert_saved(const Json& tree) {
  const Json& saved = tree["transform"];
  if (tree["cells"].is_array()) {
    return Status(ErrorCode::kCorrupt,
                  "a notebook; make its program with `jupyter nbconvert --to script` and give that");
  }
  if (!saved.is_object())
    return Status(ErrorCode::kCorrupt, "no 'transform' in it; save it with albumentations.save");
  const Json& release = tree["__version__"];
  Conversion conversion;
  conversion.is_first_albumentations =
      (release.is_string() ? release.as_string() : release.dump()).starts_with("1.");
  return convert_all({as_call(saved)}, std::move(conversion));
}

Result<std::vector<ConvertedAugment>> convert_text(std::string_view text, std::string_view recipe) {
  // A dictionary of transforms may be all of a program.
  Result<Json> json = Json::parse(text);
  const bool is_json = json.ok() && json->is_object();
  const bool is_yaml = !is_json && text.find("__class_fullname__: ") != std::string_view::npos;
  if (is_json || is_yaml) {
    if (!recipe.empty())
      return Status(ErrorCode::kMisuse, "it holds one recipe, without a name; leave --recipe out");
    if (is_yaml) json = parse_block_yaml(text);
    if (!json.ok()) return json.status();
    DLPIPE_ASSIGN_OR_RETURN(ConvertedAugment one, convert_saved(*json));
    return std::vector<ConvertedAugment>{std::move(one)};
  }
  if (text.find("\"__class_fullname__\"") != std::string_view::npos)
    return json.status();  // it was cut off, perhaps
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ScriptRecipe> found, script_recipes(text, recipe));
  std::vector<ConvertedAugment> all;
  for (const ScriptRecipe& one : found) {
    Conversion conversion;
    conversion.result.notes = one.notes;
    conversion.placed_notes = one.notes.size();
    DLPIPE_ASSIGN_OR_RETURN(ConvertedAugment converted,
                            convert_all(one.calls.items(), std::move(conversion)));
    converted.name = one.name;
    converted.line = one.line;
    all.push_back(std::move(converted));
  }
  return all;
}

}  // namespace

Result<std::vector<ConvertedAugment>> convert_augments(std::string_view text, std::string_view source,
                                                       std::string_view recipe) {
  Result<std::vector<ConvertedAugment>> all = convert_text(text, recipe);
  if (!all.ok())
    return Status(ErrorCode::kCorrupt, concat("[convert-augment] ", source, ": ", all.status().message()));
  return all;
}

}  // namespace dlpipe::run
