#include "dlpipe/run/convert/script_expression.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/run/convert/script_arithmetic.h"
#include "dlpipe/run/convert/transform_text.h"

namespace dlpipe::run {

namespace {

using ExpressionKind = ScriptExpression::Kind;
using formats::Json;

constexpr int kMostBrackets = 50;  // within each other

/// From the first to the last, blanks and line ends as one blank each.
std::string text_of(ScriptTokens tokens) {
  if (tokens.empty()) return {};
  const std::string_view last = tokens.back().text;
  const std::string_view whole(tokens.front().text.data(),
                               static_cast<size_t>(last.data() + last.size() - tokens.front().text.data()));
  std::string text;
  for (const char c : whole) {
    const bool is_blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!is_blank) {
      text += c;
    } else if (text.back() != ' ') {
      text += ' ';
    }
  }
  return text;
}

bool is_one_of(const ScriptToken& token, std::initializer_list<std::string_view> words) {
  return token.kind != ScriptToken::Kind::kString && std::ranges::find(words, token.text) != words.end();
}

bool is_prefix(const ScriptToken& token) {
  return is_one_of(token, {"+", "-", "~", "*", "**", "not", "lambda", "await", "yield"});
}

/// What goes on with an expression instead of ending it.
bool is_infix(const ScriptToken& token) {
  if (token.kind == ScriptToken::Kind::kName)
    return is_one_of(token, {"if", "else", "for", "in", "is", "and", "or", "not", "async", "from"});
  return token.kind == ScriptToken::Kind::kSign && !token.opens() && !token.closes() &&
         !is_one_of(token, {",", ":", "=", ";"});
}

/// Without its prefix and quotes; escapes stay.
std::string unquoted(std::string_view text) {
  text.remove_prefix(text.find_first_of("'\""));
  const size_t quotes = text.size() >= 6 && text[1] == text[0] && text[2] == text[0] ? 3 : 1;
  return std::string(text.substr(quotes, text.size() - 2 * quotes));
}

class ExpressionReader {
 public:
  explicit ExpressionReader(ScriptTokens tokens) : tokens_(tokens) {}

  std::vector<ScriptExpression> all() {
    ScriptExpression list;
    read_items(list, "");
    return std::move(list.items);
  }

 private:
  bool at_end() const { return at_ == tokens_.size(); }
  bool is_at(std::string_view sign) const { return !at_end() && tokens_[at_].is_sign(sign); }

  ScriptExpression finish(ScriptExpression made, size_t begin) const {
    made.text = text_of(tokens_.subspan(begin, at_ - begin));
    made.line = tokens_[begin].line;
    return made;
  }

  /// Operands with what joins them. Takes one token at least.
  ScriptExpression expression(int depth) {
    const size_t begin = at_;
    std::vector<ScriptExpression> operands;
    std::vector<std::string_view> signs;
    std::vector<std::string> before;  // of each operand, its signs
    std::string sign;
    const auto take_sign = [&] {
      signs.push_back(tokens_[at_].text);
      sign += concat(sign.empty() ? "" : " ", tokens_[at_++].text);
    };
    bool is_lambda = false;
    for (;;) {
      while (!at_end() && is_prefix(tokens_[at_])) {
        is_lambda |= tokens_[at_].is_name("lambda");
        take_sign();
      }
      if (at_end() || tokens_[at_].closes()) break;
      before.push_back(std::exchange(sign, {}));
      operands.push_back(operand(depth));
      const bool goes_on = !at_end() && (is_infix(tokens_[at_]) || (is_lambda && is_at(":")));
      if (!goes_on) break;
      take_sign();
    }
    if (!sign.empty()) before.clear();  // one stands before nothing
    return finish(joined(std::move(operands), signs, std::move(before)), begin);
  }

  /// What these operands are together. A list joined to others, or repeated, is a list.
  static ScriptExpression joined(std::vector<ScriptExpression> operands,
                                 const std::vector<std::string_view>& signs,
                                 std::vector<std::string> before) {
    const auto is_list = [](const ScriptExpression& one) { return one.kind == ExpressionKind::kList; };
    ScriptExpression made;
    if (operands.size() == 1 && signs.empty()) return std::move(operands[0]);
    if (operands.size() == 1 && signs.size() == 1) {
      ScriptExpression& one = operands[0];
      if (signs[0] == "+" && one.value.is_number()) return std::move(one);
      if (signs[0] == "-" && one.value.is_number()) {
        one.value = one.value.is_integer() ? Json(-one.value.as_int()) : Json(-one.value.as_double());
        return std::move(one);
      }
      if (signs[0] == "*") {
        one.is_spread = true;
        return std::move(one);
      }
    }
    const bool are_lists = std::ranges::all_of(operands, is_list);
    if (are_lists && operands.size() == signs.size() + 1 &&
        std::ranges::all_of(signs, [](std::string_view sign) { return sign == "+"; })) {
      made.kind = ExpressionKind::kList;
      for (ScriptExpression& list : operands) {
        std::ranges::move(list.items, std::back_inserter(made.items));
        std::ranges::move(list.keys, std::back_inserter(made.keys));
      }
      return made;
    }
    if (operands.size() == 2 && signs.size() == 1 && signs[0] == "*" && is_list(operands[0]) &&
        operands[1].value.is_integer() && operands[1].value.as_int() <= 4) {
      made.kind = ExpressionKind::kList;
      for (int64_t i = 0; i < operands[1].value.as_int(); ++i)
        made.items.insert(made.items.end(), operands[0].items.begin(), operands[0].items.end());
      made.keys.resize(made.items.size());
      return made;
    }
    made.items = std::move(operands);
    made.keys.resize(made.items.size());
    made.signs = std::move(before);
    compute(made);
    return made;
  }

  ScriptExpression operand(int depth) {
    skip_printed_number();
    const size_t begin = at_;
    ScriptExpression made = plain_operand(depth);
    // [...], (...) and .name behind it, on its line: what that gives, nobody knows here.
    const auto goes_on = [&] {
      return !at_end() && !tokens_[at_].begins_line && (is_at("[") || is_at("(") || is_at("."));
    };
    if (!goes_on()) return made;
    ScriptExpression whole;
    if (is_at("(")) whole.name = "()";
    whole.items.push_back(std::move(made));
    while (goes_on()) {
      if (!is_at(".")) {
        whole.items.push_back(bracket(depth));
        continue;
      }
      ++at_;
      if (!at_end() && tokens_[at_].kind == ScriptToken::Kind::kName) ++at_;
    }
    whole.keys.resize(whole.items.size());
    return finish(std::move(whole), begin);
  }

  /// The "(0): " that printing torch.nn.Sequential puts in front of each.
  void skip_printed_number() {
    if (tokens_.size() - at_ > 4 && is_at("(") && tokens_[at_ + 1].kind == ScriptToken::Kind::kNumber &&
        tokens_[at_ + 2].is_sign(")") && tokens_[at_ + 3].is_sign(":") && !tokens_[at_ + 4].closes())
      at_ += 4;
  }

  ScriptExpression plain_operand(int depth) {
    const size_t begin = at_;
    const ScriptToken& token = tokens_[at_];
    if (token.opens()) return bracket(depth);
    ++at_;
    ScriptExpression made;
    switch (token.kind) {
      case ScriptToken::Kind::kString: {
        std::string text = unquoted(token.text);
        while (!at_end() && tokens_[at_].kind == ScriptToken::Kind::kString)
          text += unquoted(tokens_[at_++].text);
        made.kind = ExpressionKind::kValue;
        made.value = text;
        break;
      }
      case ScriptToken::Kind::kNumber: {
        std::string digits(token.text);
        std::erase(digits, '_');
        made.kind = ExpressionKind::kValue;
        made.value = word_value(digits);
        break;
      }
      case ScriptToken::Kind::kName:
        if (is_at("(") && !tokens_[at_].begins_line) {
          made = bracket(depth);
          made.kind = ExpressionKind::kCall;
          made.name = token.text;
          compute(made);
        } else if (made.value = word_value(token.text); made.value.is_string()) {
          made.kind = ExpressionKind::kName;
          made.name = token.text;
        } else {
          made.kind = ExpressionKind::kValue;
        }
        break;
      case ScriptToken::Kind::kSign:
        break;
    }
    return finish(std::move(made), begin);
  }

  /// From a bracket to its end.
  ScriptExpression bracket(int depth) {
    const size_t begin = at_;
    const std::string_view open = tokens_[at_++].text;
    const std::string_view close = open == "(" ? ")" : (open == "[" ? "]" : "}");
    ScriptExpression made;
    made.kind = ExpressionKind::kList;
    if (depth < kMostBrackets) {
      const bool has_comma = read_items(made, close, depth + 1);
      const bool is_of_call = begin > 0 && tokens_[begin - 1].kind == ScriptToken::Kind::kName;
      if (open == "{" && std::ranges::any_of(made.keys, [](const std::string& key) { return !key.empty(); }))
        made.kind = ExpressionKind::kDictionary;
      if (open == "(" && !is_of_call && !has_comma && made.items.size() == 1 && made.keys[0].empty())
        made = ScriptExpression(std::move(made.items[0]));
    } else {
      made.kind = ExpressionKind::kOther;
      for (int open_brackets = 1; open_brackets > 0; ++at_)
        open_brackets += tokens_[at_].opens() ? 1 : (tokens_[at_].closes() ? -1 : 0);
      --at_;
    }
    ++at_;
    return finish(std::move(made), begin);
  }

  /// Up to the closing bracket, or to the end. Whether a comma stands among them.
  bool read_items(ScriptExpression& made, std::string_view close, int depth = 0) {
    bool has_comma = false;
    while (!at_end() && !is_at(close)) {
      if (is_at(",") || is_at(":") || is_at("=") || is_at(";")) {
        has_comma |= is_at(",");
        ++at_;
        continue;
      }
      const bool has_next = at_ + 1 < tokens_.size();
      if (close == ")" && has_next && tokens_[at_].kind == ScriptToken::Kind::kName &&
          tokens_[at_ + 1].is_sign("=")) {
        std::string key(tokens_[at_].text);
        at_ += 2;
        add(made, std::move(key), depth);
        continue;
      }
      ScriptExpression one = expression(depth);
      if (close == "}" && is_at(":")) {
        ++at_;
        add(made, one.value.is_string() ? one.value.as_string() : one.text, depth);
        continue;
      }
      made.items.push_back(std::move(one));
      made.keys.emplace_back();
    }
    return has_comma;
  }

  void add(ScriptExpression& made, std::string key, int depth) {
    if (at_end() || tokens_[at_].closes()) return;
    made.items.push_back(expression(depth));
    made.keys.push_back(std::move(key));
  }

  ScriptTokens tokens_;
  size_t at_ = 0;
};

}  // namespace

std::vector<ScriptExpression> script_expressions(ScriptTokens tokens) {
  return ExpressionReader(tokens).all();
}

ScriptExpression script_parameters(ScriptTokens tokens) {
  ScriptExpression made;
  made.kind = ExpressionKind::kCall;
  while (!tokens.empty()) {
    const size_t end = find_outside(tokens, ",");
    ScriptTokens one = tokens.subspan(0, end);
    tokens = tokens.subspan(std::min(end + 1, tokens.size()));
    while (!one.empty() && one[0].kind != ScriptToken::Kind::kName) one = one.subspan(1);
    if (one.empty()) continue;
    ScriptExpression itself;
    itself.kind = ExpressionKind::kName;
    itself.line = one[0].line;
    itself.text = itself.name = one[0].text;
    const size_t sign = find_outside(one, "=");
    std::vector<ScriptExpression> given;
    if (sign + 1 < one.size()) given = script_expressions(one.subspan(sign + 1));
    made.keys.push_back(itself.name);
    made.items.push_back(given.size() == 1 ? std::move(given[0]) : std::move(itself));
  }
  return made;
}

}  // namespace dlpipe::run
