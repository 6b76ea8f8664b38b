// The names of a Python program and what they stand for, from statement to statement: modules' other names, functions'
// parameters, variables. A value is that of the last assignment above, whatever a run would do.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/run/convert/script_expression.h"

namespace dlpipe::run {

class ScriptNames {
 public:
  struct Value {
    ScriptExpression expression;
    std::string parameter_of = {};        // the function whose default it is; "": of none
    std::vector<size_t> recipes = {};     // that stand in it
    std::vector<std::string> notes = {};  // of what it was resolved with
    size_t blocks = 0;                    // how many had begun when it got its name
    std::vector<int> other_lines = {};    // which may give the name another value, by a condition
  };

  /// Blocks are if, for and the like: what stands in one may not happen.
  enum class Kind { kFunction, kClass, kBlock, kPlainBlock };

  ScriptNames() : scopes_(1) {}

  /// Ends what a statement of this indentation doesn't belong to.
  void leave(size_t indent);
  void enter(Kind kind, size_t indent, const std::string& name);
  /// Functions and classes around the statement, from the outermost.
  std::vector<std::string> path() const;
  /// Whether a statement here belongs to a block that may not happen and began after `value` got its name.
  bool is_conditional(const Value& value) const;

  void import(ScriptTokens tokens);
  void set(const std::string& name, Value value);
  /// Null: it has no value here.
  Value* find(const std::string& name);

  /// With what its names stand for in their places. `used`: the recipes in those; `notes`: defaults that were taken.
  ScriptExpression resolved(const ScriptExpression& given, std::set<size_t>& used,
                            std::vector<std::string>& notes);

 private:
  ScriptExpression resolve(const ScriptExpression& given, std::set<size_t>& used,
                           std::vector<std::string>& notes);

  struct Scope {
    Kind kind = Kind::kFunction;
    size_t indent = 0;
    size_t number = 0;
    std::string name = {};
    std::map<std::string, Value, std::less<>> values = {};
  };

  std::vector<Scope> scopes_;                          // the first is the program
  std::set<std::string, std::less<>> albumentations_;  // names of it, and of what comes from it
  size_t blocks_ = 0;                                  // that have begun
  size_t size_ = 0;                                    // expressions that a resolved one has so far
};

}  // namespace dlpipe::run
