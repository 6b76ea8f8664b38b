// One of Python's expressions, as far as transforms and their arguments are written: calls, lists, dictionaries, names and values. Of
// numbers script_arithmetic makes others; what is of another form is kept as its text, with the expressions in it. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/convert/script_tokens.h"

namespace dlpipe::run {

struct ScriptExpression {
  enum class Kind { kValue, kName, kCall, kList, kDictionary, kOther };
  Kind kind = Kind::kOther;
  int line = 1;
  std::string text;                     // as written, on one line
  formats::Json value;                  // kValue: a number, a truth value, None or a text
  std::string name;                     // kName; kCall: what is called; kOther: "()" where its first item is
  std::vector<ScriptExpression> items;  // arguments, elements, values; kOther: those that stand in it
  std::vector<std::string> keys = {};   // of items: an argument's name, a dictionary's key; "": none
  bool is_spread = false;               // *items
  std::vector<std::string> signs = {};  // kOther: what stands before each operand: "", "-", "*", "* -"

  /// The name without what stands before its last dot.
  std::string last_name() const { return name.substr(name.rfind('.') + 1); }
};

/// The expressions that commas divide. Their text and what print() writes, without commas, are read alike.
std::vector<ScriptExpression> script_expressions(ScriptTokens tokens);

/// What a function takes, by the tokens within its brackets: a kCall whose keys are the parameters' names, and whose items are their
/// defaults; without one, the name itself.
ScriptExpression script_parameters(ScriptTokens tokens);

}  // namespace dlpipe::run
