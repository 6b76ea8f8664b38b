#include "dlpipe/run/convert/script_recipes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/run/convert/script_calls.h"
#include "dlpipe/run/convert/script_names.h"
#include "dlpipe/run/convert/transform_rules.h"

namespace dlpipe::run {

namespace {

using ExpressionKind = ScriptExpression::Kind;
constexpr int kMostOnALine = 50;

struct FoundRecipe {
  std::vector<std::string> path;  // functions, variable, keys
  ScriptExpression expression;    // resolved
  std::vector<std::string> notes = {};
  bool is_used = false;  // in another one
  bool is_bare = false;  // it stands alone, in a list of all transforms that do

  bool is_list_of(std::string_view name) const {
    return expression.kind == ExpressionKind::kList && !path.empty() && name.ends_with(path.back());
  }
};

std::string words_of(const std::vector<std::string>& names, std::string_view between, size_t from = 0) {
  std::string all;
  for (size_t i = from; i < names.size(); ++i) all += concat(i == from ? "" : between, names[i]);
  return all;
}

class RecipeReader {
 public:
  void statement(ScriptTokens tokens, size_t indent) {
    names_.leave(indent);
    if (tokens[0].is_name("async") && tokens.size() > 1) tokens = tokens.subspan(1);
    const std::string_view word = tokens[0].kind == ScriptToken::Kind::kName ? tokens[0].text : "";
    if (word == "def" || word == "class") return definition(tokens, indent);
    if (is_header(word)) return header(tokens, indent);
    if (word == "import" || word == "from") return names_.import(tokens);
    if (word == "return" || word == "yield") {
      for (const ScriptExpression& one : script_expressions(tokens.subspan(1))) search(names_.path(), one);
      return;
    }
    const size_t sign = find_outside(tokens, "=");
    if (sign < tokens.size()) return assignment(tokens, sign);
    const size_t adding = find_outside(tokens, "+=");
    if (adding == 1 && tokens.size() > 2) {
      const std::vector<ScriptExpression> more = script_expressions(tokens.subspan(adding + 1));
      if (more.size() == 1) extend(std::string(tokens[0].text), more[0], tokens[0].line);
      return;
    }
    for (const ScriptExpression& one : script_expressions(tokens)) alone(one);
  }

  std::vector<FoundRecipe> finish() {
    std::vector<ScriptExpression> classes;
    for (const FoundRecipe& found : found_) {
      if (found.is_bare) std::ranges::copy(found.expression.items, std::back_inserter(classes));
    }
    // Nothing that is known: what stands alone may be transforms of which none is.
    const bool is_known = std::ranges::any_of(classes, is_transform) ||
                          std::ranges::any_of(found_, [](const FoundRecipe& one) { return !one.is_bare; });
    if (is_known) {
      std::erase_if(found_, [](const FoundRecipe& one) {
        return one.is_bare && std::ranges::none_of(one.expression.items, is_transform);
      });
    }
    return std::move(found_);
  }

 private:
  static bool is_header(std::string_view word) {
    static const std::set<std::string_view> words = {"if",   "elif", "else",   "for",    "while",
                                                     "with", "try",  "except", "finally"};
    return words.contains(word);
  }

  /// What follows the ':' on the same line.
  void rest(ScriptTokens tokens, size_t colon, size_t indent) {
    if (colon + 1 >= tokens.size() || nested_ == kMostOnALine) return;
    ++nested_;
    statement(tokens.subspan(colon + 1), indent + 1);
    --nested_;
  }

  void header(ScriptTokens tokens, size_t indent) {
    const std::string_view word = tokens[0].text;
    const bool is_certain = word == "with" || word == "try" || word == "finally";
    names_.enter(is_certain ? ScriptNames::Kind::kPlainBlock : ScriptNames::Kind::kBlock, indent, "");
    rest(tokens, find_outside(tokens, ":"), indent);
  }

  void definition(ScriptTokens tokens, size_t indent) {
    if (tokens.size() < 2) return;
    const bool is_class = tokens[0].is_name("class");
    const std::string name(tokens[1].text);
    names_.enter(is_class ? ScriptNames::Kind::kClass : ScriptNames::Kind::kFunction, indent,
                 name == "__init__" ? "" : name);
    const size_t colon = find_outside(tokens, ":");
    if (!is_class && tokens.size() > 2 && tokens[2].opens()) {
      size_t end = 3;
      for (int depth = 1; end < tokens.size(); ++end) {
        depth += tokens[end].opens() ? 1 : (tokens[end].closes() ? -1 : 0);
        if (depth == 0) break;
      }
      const ScriptExpression parameters = script_parameters(tokens.subspan(3, end - 3));
      const std::vector<std::string> of = names_.path();  // of __init__ the class
      for (size_t i = 0; i < parameters.items.size(); ++i)
        names_.set(parameters.keys[i], {parameters.items[i], of.empty() ? name : of.back()});
    }
    rest(tokens, colon, indent);
  }

  /// a = b: T.Compose = VALUE; a, b = VALUE, VALUE; a["key"] = VALUE.
  void assignment(ScriptTokens tokens, size_t sign) {
    const auto target_of = [](ScriptTokens target) {
      return script_expressions(target.subspan(0, find_outside(target, ":")));
    };
    const std::vector<ScriptExpression> targets = target_of(tokens.subspan(0, sign));
    std::vector<std::vector<ScriptExpression>> others;  // a = b = VALUE
    ScriptTokens after = tokens.subspan(sign + 1);
    for (size_t next = find_outside(after, "="); next < after.size(); next = find_outside(after, "=")) {
      others.push_back(target_of(after.subspan(0, next)));
      after = after.subspan(next + 1);
    }
    std::vector<ScriptExpression> values = script_expressions(after);
    if (targets.size() == 1 && values.size() > 1) {  // a = 1, 2
      ScriptExpression list;
      list.kind = ExpressionKind::kList;
      list.line = values[0].line;
      for (const ScriptExpression& one : values) list.text += concat(list.text.empty() ? "" : ", ", one.text);
      list.items = std::move(values);
      list.keys.resize(list.items.size());
      values = {std::move(list)};
    }
    const bool is_each = targets.size() == values.size();
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t first = found_.size();
      std::vector<std::string> path = names_.path();
      if (is_each) std::ranges::copy(names_of(targets[i]), std::back_inserter(path));
      search(path, values[i]);
      if (!is_each) continue;
      set(targets[i], values[i], first);
      for (const auto& other : others) {
        if (other.size() == values.size()) set(other[i], values[i], first);
      }
    }
  }

  /// Of a target: "x", "self.x", x["key"].
  static std::vector<std::string> names_of(const ScriptExpression& target) {
    if (target.kind == ExpressionKind::kName) return {target.last_name()};
    if (target.kind == ExpressionKind::kValue && target.value.is_string()) return {target.value.as_string()};
    std::vector<std::string> names;
    for (const ScriptExpression& one : target.items)
      std::ranges::copy(names_of(one), std::back_inserter(names));
    return names;
  }

  void set(const ScriptExpression& target, const ScriptExpression& value, size_t first_found) {
    if (target.kind != ExpressionKind::kName) return;
    std::set<size_t> used;
    std::vector<std::string> notes;
    ScriptNames::Value made = {names_.resolved(value, used, notes), "", {used.begin(), used.end()}};
    for (size_t i = first_found; i < found_.size(); ++i) made.recipes.push_back(i);
    made.notes = std::move(notes);
    names_.set(target.name, std::move(made));
  }

  /// steps += [...], steps.append(...): what stands in a block that may not happen is put there as what it is.
  void extend(const std::string& name, const ScriptExpression& more, int line) {
    ScriptNames::Value* known = names_.find(name);
    if (known == nullptr || known->expression.kind != ExpressionKind::kList) return;
    std::set<size_t> used;
    std::vector<std::string> notes;
    ScriptExpression added = names_.resolved(more, used, notes);
    std::vector<ScriptExpression> items;
    const bool is_conditional = names_.is_conditional(*known);
    if (is_conditional || added.kind != ExpressionKind::kList) {
      ScriptExpression one;
      one.line = line;
      one.text = concat(more.text, ", which is added to ", name, is_conditional ? " under a condition" : "");
      items.push_back(std::move(one));
    } else {
      items = std::move(added.items);
    }
    for (const size_t i : used) found_[i].is_used = true;
    if (!is_conditional) std::ranges::move(notes, std::back_inserter(known->notes));
    std::ranges::move(items, std::back_inserter(known->expression.items));
    known->expression.keys.resize(known->expression.items.size());
    const auto own =
        std::ranges::find_if(known->recipes, [&](size_t i) { return found_[i].is_list_of(name); });
    if (own != known->recipes.end()) {
      found_[*own].expression = known->expression;
    } else if (std::ranges::any_of(known->expression.items, is_transform)) {
      std::vector<std::string> path = names_.path();
      path.push_back(name.substr(name.rfind('.') + 1));
      known->recipes.push_back(found_.size());
      found_.push_back({std::move(path), known->expression});
    }
    known->recipes.insert(known->recipes.end(), used.begin(), used.end());
  }

  /// An expression that is a statement.
  void alone(const ScriptExpression& one) {
    for (const std::string_view method : {".append", ".extend", ".insert"}) {
      if (one.kind != ExpressionKind::kCall || !one.name.ends_with(method) || one.items.empty()) continue;
      const std::string name = one.name.substr(0, one.name.size() - method.size());
      if (names_.find(name) == nullptr) break;
      if (method == ".extend") return extend(name, one.items[0], one.line);
      ScriptExpression list;
      list.kind = method == ".append" ? ExpressionKind::kList : ExpressionKind::kOther;
      list.items = {one.items[0]};
      list.keys = {""};
      list.text = one.items.back().text;
      return extend(name, list, one.line);
    }
    const bool is_bare = is_transform(one) || is_class_call(one);
    std::set<size_t> used;
    std::vector<std::string> notes;
    if (!is_bare || (!is_transform(one) && holds_transform(one))) return search(names_.path(), one);
    const ScriptExpression whole = names_.resolved(one, used, notes);
    for (const size_t i : used) found_[i].is_used = true;
    if (found_.empty() || !found_.back().is_bare) {
      ScriptExpression list;
      list.kind = ExpressionKind::kList;
      list.line = one.line;
      found_.push_back({names_.path(), std::move(list), {}, false, true});
    }
    ScriptExpression& list = found_.back().expression;
    if (whole.kind == ExpressionKind::kList) {
      std::ranges::copy(whole.items, std::back_inserter(list.items));
    } else {
      list.items.push_back(whole);
    }
    list.keys.resize(list.items.size());
    std::ranges::copy(notes, std::back_inserter(found_.back().notes));
  }

  /// Composes by themselves are recipes each; what is a list of other transforms is one.
  bool is_recipe(const ScriptExpression& one) {
    if (one.kind != ExpressionKind::kList)
      return one.kind == ExpressionKind::kCall && is_transform(one) && !is_no_op(one.last_name());
    bool has_transform = false;
    for (const ScriptExpression& item : one.items) {
      const ScriptNames::Value* known = item.kind == ExpressionKind::kName ? names_.find(item.name) : nullptr;
      const ScriptExpression& meant = known == nullptr ? item : known->expression;
      has_transform |=
          is_transform(meant) && !(is_compose(meant) && std::ranges::all_of(one.items, is_compose));
    }
    return has_transform;
  }

  /// All recipes in an expression, which is called as `path` says.
  void search(const std::vector<std::string>& path, const ScriptExpression& one) {
    if (is_recipe(one)) {
      FoundRecipe found = {path, {}};
      std::set<size_t> used;
      found.expression = names_.resolved(one, used, found.notes);
      for (const size_t i : used) found_[i].is_used = true;
      found_.push_back(std::move(found));
      return;
    }
    // T.Resize(256)(image) is one at work; Compose([...])(image) is shown all the same.
    const bool is_at_work = one.name == "()" && !is_compose(one.items[0]);
    for (size_t i = is_at_work ? 1 : 0; i < one.items.size(); ++i) {
      std::vector<std::string> inner = path;
      if (!one.keys[i].empty()) inner.push_back(one.keys[i]);
      search(inner, one.items[i]);
    }
  }

  int nested_ = 0;  // statements of one line within each other
  ScriptNames names_;
  std::vector<FoundRecipe> found_;
};

/// As much of each path's end as tells it from the others, else with its line.
std::vector<std::string> short_names(const std::vector<FoundRecipe>& found) {
  const auto full = [&](const FoundRecipe& one) { return words_of(one.path, "."); };
  std::vector<std::string> names;
  for (const FoundRecipe& one : found) {
    std::string name = full(one);
    const auto same =
        std::ranges::count_if(found, [&](const FoundRecipe& other) { return full(other) == name; });
    if (same > 1 || (name.empty() && found.size() > 1)) {
      names.push_back(concat(name, ":", one.expression.line));
      continue;
    }
    for (size_t from = one.path.size(); from-- > 0;) {
      const std::string shorter = words_of(one.path, ".", from);
      const auto fitting = std::ranges::count_if(found, [&](const FoundRecipe& other) {
        return full(other) == shorter || full(other).ends_with("." + shorter);
      });
      if (fitting > 1) continue;
      name = shorter;
      break;
    }
    names.push_back(std::move(name));
  }
  return names;
}

/// Which one `wanted` means; found.size(): none, or several.
size_t meant(const std::vector<FoundRecipe>& found, const std::vector<std::string>& names,
             std::string_view wanted) {
  const auto only = [&](auto&& fits) {
    size_t at = found.size();
    for (size_t i = 0; i < found.size(); ++i) {
      if (!fits(i)) continue;
      if (at < found.size()) return found.size();
      at = i;
    }
    return at;
  };
  size_t at = only([&](size_t i) { return names[i] == wanted || words_of(found[i].path, ".") == wanted; });
  if (at == found.size())
    at = only([&](size_t i) { return std::ranges::find(found[i].path, wanted) != found[i].path.end(); });
  return at;
}

}  // namespace

Result<std::vector<ScriptRecipe>> script_recipes(std::string_view text, std::string_view name) {
  DLPIPE_ASSIGN_OR_RETURN(const auto statements, script_statements(text));
  const bool has_lines = text.find('\n') < text.find_last_not_of(" \r\n\t");
  RecipeReader reader;
  for (const ScriptStatement& statement : statements) reader.statement(statement.tokens, statement.indent);
  const std::vector<FoundRecipe> found = reader.finish();
  const std::vector<std::string> names = short_names(found);
  const auto recipe = [&](size_t i) {
    return ScriptRecipe{names[i], found[i].expression.line, script_calls(found[i].expression, has_lines),
                        found[i].notes};
  };
  std::vector<std::string> shown;
  std::vector<ScriptRecipe> recipes;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].is_used) continue;
    shown.push_back(names[i]);
    if (name.empty()) recipes.push_back(recipe(i));
  }
  if (shown.empty()) {
    return Status(ErrorCode::kCorrupt,
                  "no transforms in it: no Compose([...]), and none of torchvision or Albumentations that "
                  "does more than make "
                  "a tensor; give the program that has them, or what print(transform) writes");
  }
  if (name.empty()) return recipes;
  const size_t at = meant(found, names, name);
  if (at < found.size()) return std::vector<ScriptRecipe>{recipe(at)};
  const bool is_named = std::ranges::any_of(shown, [](const std::string& one) { return !one.empty(); });
  return Status(ErrorCode::kCorrupt,
                concat("there is no recipe ", name,
                       is_named ? concat("; there are ", words_of(shown, ", ")) : "; none has a name"));
}

}  // namespace dlpipe::run
