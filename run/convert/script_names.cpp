#include "dlpipe/run/convert/script_names.h"

#include <algorithm>

#include "dlpipe/base/text.h"
#include "dlpipe/run/convert/script_arithmetic.h"

namespace dlpipe::run {

namespace {

// A program may write lists of lists that double with every line.
constexpr size_t kMostResolved = 5000;
constexpr size_t kMostDepth = 50;

/// "self.x" is "x" of the class.
std::string_view without_self(std::string_view name) {
  for (const std::string_view self : {"self.", "cls."}) {
    if (name.starts_with(self)) return name.substr(self.size());
  }
  return name;
}

size_t expressions_in(const ScriptExpression& expression) {
  size_t all = 1;
  for (const ScriptExpression& one : expression.items) all += expressions_in(one);
  return all;
}

size_t depth_of(const ScriptExpression& expression) {
  size_t most = 0;
  for (const ScriptExpression& one : expression.items) most = std::max(most, depth_of(one));
  return most + 1;
}

}  // namespace

void ScriptNames::leave(size_t indent) {
  while (scopes_.size() > 1 && scopes_.back().indent >= indent) scopes_.pop_back();
}

void ScriptNames::enter(Kind kind, size_t indent, const std::string& name) {
  scopes_.push_back({kind, indent, ++blocks_, name});
}

bool ScriptNames::is_conditional(const Value& value) const {
  return std::ranges::any_of(
      scopes_, [&](const Scope& scope) { return scope.kind == Kind::kBlock && scope.number > value.blocks; });
}

std::vector<std::string> ScriptNames::path() const {
  std::vector<std::string> names;
  for (const Scope& scope : scopes_) {
    if (!scope.name.empty()) names.push_back(scope.name);
  }
  return names;
}

void ScriptNames::import(ScriptTokens tokens) {
  if (tokens.size() < 2 ||
      !(tokens[1].text == "albumentations" || tokens[1].text.starts_with("albumentations.")))
    return;
  if (tokens[0].is_name("import") && tokens.size() < 4) albumentations_.emplace(tokens[1].text);
  for (size_t i = 2; i < tokens.size(); ++i) {
    const bool is_renamed = i + 1 < tokens.size() && tokens[i + 1].is_name("as");
    if (tokens[i].is_sign("*") || (tokens[i].kind == ScriptToken::Kind::kName && !is_renamed))
      albumentations_.emplace(tokens[i].text);
  }
}

void ScriptNames::set(const std::string& name, Value value) {
  const std::string_view own = without_self(name);
  const Kind wanted = own.size() < name.size() ? Kind::kClass : Kind::kFunction;
  size_t at = scopes_.size() - 1;
  while (at > 0 && (scopes_[at].kind == Kind::kBlock || scopes_[at].kind == Kind::kPlainBlock ||
                    (wanted == Kind::kClass && scopes_[at].kind != Kind::kClass)))
    --at;
  value.blocks = blocks_;
  if (const auto former = scopes_[at].values.find(own);
      former != scopes_[at].values.end() && is_conditional(former->second)) {
    value.other_lines = former->second.other_lines;
    value.other_lines.push_back(former->second.expression.line);
  }
  scopes_[at].values.insert_or_assign(std::string(own), std::move(value));
}

ScriptNames::Value* ScriptNames::find(const std::string& name) {
  const std::string_view own = without_self(name);
  for (size_t at = scopes_.size(); at-- > 0;) {
    if (const auto found = scopes_[at].values.find(own); found != scopes_[at].values.end())
      return &found->second;
  }
  return nullptr;
}

ScriptExpression ScriptNames::resolved(const ScriptExpression& given, std::set<size_t>& used,
                                       std::vector<std::string>& notes) {
  size_ = expressions_in(given);
  return resolve(given, used, notes);
}

ScriptExpression ScriptNames::resolve(const ScriptExpression& given, std::set<size_t>& used,
                                      std::vector<std::string>& notes) {
  if (given.kind == ScriptExpression::Kind::kName) {
    const Value* known = find(given.name);
    if (known == nullptr || known->expression.name == given.name)
      return given;  // a parameter without a default
    size_ += expressions_in(known->expression);
    if (size_ > kMostResolved || depth_of(known->expression) > kMostDepth) return given;
    used.insert(known->recipes.begin(), known->recipes.end());
    const auto add_note = [&](std::string note) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    };
    if (!known->parameter_of.empty())
      add_note(concat(given.name, " is ", known->expression.text, ", its default in ", known->parameter_of));
    for (const std::string& note : known->notes) add_note(note);
    for (const int line : known->other_lines)
      add_note(concat(given.name, " is what line ", known->expression.line,
                      " says; by a condition it may be that of line ", line));
    ScriptExpression value = known->expression;
    value.is_spread = given.is_spread;
    return value;
  }
  ScriptExpression made = given;
  made.items.clear();
  made.keys.clear();
  for (size_t i = 0; i < given.items.size(); ++i) {
    ScriptExpression one = resolve(given.items[i], used, notes);
    if (one.is_spread && one.kind == ScriptExpression::Kind::kList) {
      std::ranges::move(one.items, std::back_inserter(made.items));
      made.keys.resize(made.items.size());
      continue;
    }
    made.items.push_back(std::move(one));
    made.keys.push_back(given.keys[i]);
  }
  compute(made);
  if (made.kind == ScriptExpression::Kind::kCall) {
    const std::string first = made.name.substr(0, made.name.find('.'));
    const bool is_theirs =
        albumentations_.contains(first) || (albumentations_.contains("*") && first == made.name);
    if (is_theirs) made.name = concat("A.", made.last_name());
  }
  return made;
}

}  // namespace dlpipe::run
