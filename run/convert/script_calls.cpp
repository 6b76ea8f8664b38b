#include "dlpipe/run/convert/script_calls.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "dlpipe/base/text.h"
#include "dlpipe/run/convert/transform_rules.h"

namespace dlpipe::run {

namespace {

using ExpressionKind = ScriptExpression::Kind;
using formats::Json;

/// What has such a name in other libraries is no transform.
bool is_of_other_library(const ScriptExpression& call) {
  const std::string first = call.name.substr(0, call.name.find('.'));
  static const std::set<std::string_view> others = {"nn", "np", "cv2", "tf", "F", "plt"};
  return (others.contains(first) && first != call.name) || call.name.find("nn.") != std::string::npos;
}

/// In place of a transform.
Json unread(const ScriptExpression& one, bool has_lines) {
  Json call = Json::object({{"text", one.text}});
  if (has_lines) call.set("line", one.line);
  return call;
}

/// In the form of transform_text.h.
Json call_json(const ScriptExpression& one, bool has_lines) {
  switch (one.kind) {
    case ExpressionKind::kValue:
      return one.value;
    case ExpressionKind::kName:
      return one.is_spread ? concat("*", one.name) : one.name;
    case ExpressionKind::kList: {
      const bool is_of_transforms = std::ranges::any_of(one.items, is_transform);
      Json items = Json::array();
      for (const ScriptExpression& item : one.items) {
        const bool is_readable = is_class_call(item) || item.kind == ExpressionKind::kList;
        items.push_back(is_of_transforms && !is_readable ? unread(item, has_lines)
                                                         : call_json(item, has_lines));
      }
      return items;
    }
    case ExpressionKind::kDictionary: {
      Json pairs = Json::object();
      for (size_t i = 0; i < one.items.size(); ++i)
        pairs.set(one.keys[i], call_json(one.items[i], has_lines));
      return pairs;
    }
    case ExpressionKind::kCall: {
      if (!is_class_call(one)) return one.text;
      Json args = Json::array();
      Json kwargs = Json::object();
      for (size_t i = 0; i < one.items.size(); ++i) {
        if (one.keys[i].empty()) {
          args.push_back(call_json(one.items[i], has_lines));
        } else {
          kwargs.set(one.keys[i], call_json(one.items[i], has_lines));
        }
      }
      const size_t dot = one.name.rfind('.');
      Json call =
          Json::object({{"name", one.last_name()},
                        {"module", dot == std::string::npos ? std::string() : one.name.substr(0, dot)},
                        {"args", std::move(args)},
                        {"kwargs", std::move(kwargs)}});
      if (has_lines) call.set("line", one.line);
      return call;
    }
    case ExpressionKind::kOther:
      break;
  }
  return holds_transform(one) ? unread(one, has_lines) : Json(one.text);
}

}  // namespace

bool is_compose(const ScriptExpression& one) {
  return one.kind == ExpressionKind::kCall &&
         (one.last_name() == "Compose" || one.last_name() == "ReplayCompose");
}

bool is_transform(const ScriptExpression& one) {
  if (one.kind == ExpressionKind::kList) return std::ranges::any_of(one.items, is_transform);
  if (one.kind != ExpressionKind::kCall) return false;
  if (is_compose(one)) return true;
  const std::string name = one.last_name();
  if (is_container(name)) return holds_transform(one);  // of a sum of lists, too, which can't be read
  return !is_of_other_library(one) && (is_no_op(name) || transform_rule(name));
}

bool is_class_call(const ScriptExpression& one) {
  return one.kind == ExpressionKind::kCall &&
         (std::isupper(static_cast<unsigned char>(one.last_name()[0])) != 0 ||
          transform_rule(one.last_name()));
}

bool holds_transform(const ScriptExpression& one) {
  return std::ranges::any_of(
      one.items, [](const ScriptExpression& inner) { return is_transform(inner) || holds_transform(inner); });
}

Json script_calls(const ScriptExpression& recipe, bool has_lines) {
  Json calls = call_json(recipe, has_lines);
  return recipe.kind == ExpressionKind::kList ? calls : Json(Json::Array{std::move(calls)});
}

}  // namespace dlpipe::run
