#include "dlpipe/run/convert/script_tokens.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using TokenKind = ScriptToken::Kind;

bool begins_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || c == '_' || byte >= 0x80;
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_of_name(char c) {
  return begins_name(c) || is_digit(c);
}

class ScriptTokenizer {
 public:
  explicit ScriptTokenizer(std::string_view text) : text_(text) {}

  Result<std::vector<ScriptStatement>> all() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        new_line();
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\\' && is_before_line_end(at_ + 1)) {
        at_ = text_.find('\n', at_) + 1;
        ++line_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        if (is_new_line_) indent_ += c == '\t' ? 8 - indent_ % 8 : 1;
        ++at_;
      } else if (c == ';' && open_.empty()) {
        end_statement();
        ++at_;
      } else {
        DLPIPE_RETURN_IF_ERROR(token());
      }
    }
    if (!open_.empty()) {
      return Status(ErrorCode::kCorrupt, concat("the text ends within brackets: no end of the '",
                                                open_.back().text, "' in line ", open_.back().line));
    }
    end_statement();
    return std::move(statements_);
  }

 private:
  bool is_before_line_end(size_t at) const {
    while (at < text_.size() && text_[at] == '\r') ++at;
    return at < text_.size() && text_[at] == '\n';
  }

  void new_line() {
    ++at_;
    ++line_;
    is_new_line_ = true;
    if (!open_.empty()) return;
    end_statement();
    indent_ = 0;
  }

  void end_statement() {
    if (!now_.tokens.empty()) statements_.push_back(std::move(now_));
    now_ = {};
  }

  Status error(std::string_view what, int line) const {
    return {ErrorCode::kCorrupt, concat(what, " in line ", line)};
  }

  void add(TokenKind kind, size_t size) {
    if (now_.tokens.empty()) now_.indent = indent_;
    now_.tokens.push_back({kind, text_.substr(at_, size), line_, is_new_line_});
    is_new_line_ = false;
    at_ += size;
  }

  Status token() {
    const char c = text_[at_];
    if (const size_t quote = quote_here(); quote != std::string_view::npos) return string(quote);
    if (begins_name(c)) {
      add(TokenKind::kName, name_size());
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      add(TokenKind::kNumber, number_size());
    } else {
      add(TokenKind::kSign, sign_size());
      return follow_bracket();
    }
    return {};
  }

  /// Where the quote of a string stands that begins here; npos: none does.
  size_t quote_here() const {
    size_t at = at_;
    while (at < text_.size() && at < at_ + 2 &&
           std::string_view("rRbBuUfF").find(text_[at]) != std::string_view::npos)
      ++at;
    return at < text_.size() && (text_[at] == '\'' || text_[at] == '"') ? at : std::string_view::npos;
  }

  Status string(size_t quote) {
    const char mark = text_[quote];
    const bool is_long = text_.substr(quote, 3) == std::string(3, mark);
    const int first_line = line_;
    int line = line_;
    size_t end = quote + (is_long ? 3 : 1);
    for (;; ++end) {
      if (end >= text_.size() || (text_[end] == '\n' && !is_long))
        return error("a quoted word that doesn't end", first_line);
      if (text_[end] == '\n') ++line;
      if (text_[end] == '\\') {
        if (end + 1 < text_.size() && text_[end + 1] == '\n') ++line;
        ++end;
      } else if (text_[end] == mark && (!is_long || text_.substr(end, 3) == std::string(3, mark))) {
        break;
      }
    }
    add(TokenKind::kString, end + (is_long ? 3 : 1) - at_);
    line_ = line;
    return {};
  }

  size_t name_size() const {
    size_t end = at_;
    while (end < text_.size() && (is_of_name(text_[end]) || (text_[end] == '.' && end + 1 < text_.size() &&
                                                             begins_name(text_[end + 1]))))
      ++end;
    return end - at_;
  }

  size_t number_size() const {
    size_t end = at_;
    const bool is_hex = text_.substr(at_, 2) == "0x" || text_.substr(at_, 2) == "0X";
    while (end < text_.size()) {
      const char c = text_[end];
      const bool is_exponent_sign =
          (c == '+' || c == '-') && !is_hex && end > at_ && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
      if (!is_of_name(c) && c != '.' && !is_exponent_sign) break;
      ++end;
    }
    return end - at_;
  }

  size_t sign_size() const {
    for (const std::string_view sign :
         {"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "==", "!=", "<=",
          ">=",  ":=",  "->",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "@="}) {
      if (text_.substr(at_).starts_with(sign)) return sign.size();
    }
    return 1;
  }

  Status follow_bracket() {
    const ScriptToken& last = now_.tokens.back();
    if (last.opens()) {
      open_.push_back(last);
    } else if (last.closes()) {
      const std::string_view opening = last.text == ")" ? "(" : (last.text == "]" ? "[" : "{");
      if (open_.empty() || open_.back().text != opening)
        return error(concat("unexpected '", last.text, "'"), last.line);
      open_.pop_back();
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  size_t indent_ = 0;
  bool is_new_line_ = true;
  std::vector<ScriptToken> open_;  // brackets
  ScriptStatement now_;
  std::vector<ScriptStatement> statements_;
};

}  // namespace

Result<std::vector<ScriptStatement>> script_statements(std::string_view text) {
  return ScriptTokenizer(text).all();
}

size_t find_outside(ScriptTokens tokens, std::string_view sign) {
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (depth == 0 && tokens[i].is_sign(sign)) return i;
    if (tokens[i].opens()) ++depth;
    if (tokens[i].closes()) --depth;
  }
  return tokens.size();
}

}  // namespace dlpipe::run
