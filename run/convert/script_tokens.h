// The statements of a Python program as tokens, which is all of Python's grammar that script_expression and script_recipes
// need. Pure functions.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

struct ScriptToken {
  enum class Kind { kName, kNumber, kString, kSign };
  Kind kind = Kind::kSign;
  std::string_view
      text;  // of a name with its dots ("T.Resize"), of a string with its quotes; refers to the program
  int line = 1;
  bool begins_line = false;

  bool is_sign(std::string_view sign) const { return kind == Kind::kSign && text == sign; }
  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
  /// One of the brackets that begin something.
  bool opens() const { return is_sign("(") || is_sign("[") || is_sign("{"); }
  bool closes() const { return is_sign(")") || is_sign("]") || is_sign("}"); }
};

using ScriptTokens = std::span<const ScriptToken>;

struct ScriptStatement {
  size_t indent = 0;                // columns in front of its line
  std::vector<ScriptToken> tokens;  // not empty; its brackets are balanced
};

/// Comments are left out; lines that brackets or a backslash join are one statement. kCorrupt: brackets or quotes that don't end,
/// with the line.
Result<std::vector<ScriptStatement>> script_statements(std::string_view text);

/// Where `sign` stands first outside of all brackets; tokens.size(): nowhere.
size_t find_outside(ScriptTokens tokens, std::string_view sign);

}  // namespace dlpipe::run
