#include "dlpipe/augment/expression.h"

#include <algorithm>
#include <cctype>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Reads one expression from left to right; each function takes what it is named after.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::vector<ExpressionCall>> expression() {
    std::vector<ExpressionCall> calls;
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      DLPIPE_ASSIGN_OR_RETURN(ExpressionCall call, op());
      calls.push_back(std::move(call));
    }
    return calls;
  }

 private:
  Result<ExpressionCall> op() {
    ExpressionCall call;
    call.position = at_ + 1;
    while (at_ < text_.size() && is_name(text_[at_])) call.name += text_[at_++];
    if (call.name.empty()) {
      return error(concat("unexpected '", text_[at_], "'"), at_ + 1,
                   "write ops one after another, such as rrc(224) hflip");
    }
    const size_t after_name = at_;
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != '(') {
      at_ = after_name;
      if (at_ < text_.size() && !is_blank(text_[at_])) {
        return error(concat("unexpected '", text_[at_], "'"), at_ + 1, "put a blank between ops");
      }
      return call;
    }
    DLPIPE_RETURN_IF_ERROR(arguments(&call.arguments));
    return call;
  }

  Status arguments(std::vector<ExpressionArgument>* arguments) {
    const size_t open = at_++;
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == ')') {
      ++at_;
      return {};
    }
    while (true) {
      skip_blanks();
      const size_t begin = at_;
      for (int depth = 0; at_ < text_.size(); ++at_) {
        const char c = text_[at_];
        if (depth == 0 && (c == ',' || c == ')')) break;
        if (c == '(' && !is_after_name(begin)) {
          return error("'(' inside brackets", at_ + 1, "close the op before it with ')'");
        }
        depth += c == '(' ? 1 : (c == ')' ? -1 : 0);
      }
      if (at_ == text_.size()) return error("'('", open + 1, "", " is never closed; add ')'");
      DLPIPE_ASSIGN_OR_RETURN(ExpressionArgument argument_read, argument(begin));
      arguments->push_back(std::move(argument_read));
      if (text_[at_++] == ')') return {};
    }
  }

  /// Whether what stands before at_, blanks left out, ends a name that begins at `begin` or later.
  bool is_after_name(size_t begin) const {
    size_t i = at_;
    while (i > begin && is_blank(text_[i - 1])) --i;
    return i > begin && is_name(text_[i - 1]);
  }

  /// The first '=' of `text` from `at` on that stands in no brackets.
  static size_t find_equals(std::string_view text, size_t at) {
    int depth = 0;
    for (; at < text.size(); ++at) {
      depth += text[at] == '(' ? 1 : (text[at] == ')' ? -1 : 0);
      if (text[at] == '=' && depth == 0) return at;
    }
    return std::string_view::npos;
  }

  Result<ExpressionArgument> argument(size_t begin) const {
    const std::string_view whole = trim(text_.substr(begin, at_ - begin));
    ExpressionArgument argument;
    argument.position = begin + 1;
    const size_t equals = find_equals(whole, 0);
    if (equals != std::string_view::npos) argument.name = trim(whole.substr(0, equals));
    argument.value = trim(equals == std::string_view::npos ? whole : whole.substr(equals + 1));
    if (argument.value.empty() || (equals != std::string_view::npos && argument.name.empty())) {
      return error("empty argument", begin + 1, "write value or name=value");
    }
    if (find_equals(argument.value, 0) != std::string_view::npos) {
      return error("two '=' in one argument", begin + 1, "put a comma between arguments");
    }
    return argument;
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  Status error(std::string_view what, size_t position, std::string_view advice,
               std::string_view rest = "") const {
    return misuse("augment", what, at_position(position, text_), rest, advice.empty() ? "" : "; ", advice);
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::vector<std::string> param_names(const OpRecord& record) {
  std::vector<std::string> names;
  for (const OpParam& param : record.params) names.push_back(param.name);
  return names;
}

/// "rrc(size, scale=0.08..1, ratio=0.75..1.33)": how to write the op, for messages.
std::string usage(const OpRecord& record) {
  std::string text = record.name;
  text += "(";
  for (const OpParam& param : record.params) {
    if (text.back() != '(') text += ", ";
    text += param.name;
    if (!param.default_value.empty()) text += "=" + param.default_value;
  }
  return text + ")";
}

/// Which parameter an argument is for.
Result<size_t> parameter_index(const ExpressionCall& call, size_t argument_index, const OpRecord& record,
                               std::string_view text) {
  const ExpressionArgument& argument = call.arguments[argument_index];
  const std::string where = at_position(argument.position, text);
  if (argument.name.empty()) {
    for (size_t i = 0; i < argument_index; ++i) {
      if (!call.arguments[i].name.empty()) {
        return misuse("augment", record.name, ": '", argument.value, "'", where,
                      " has no name but follows a named argument; name it too: ", usage(record));
      }
    }
    if (argument_index >= record.params.size()) {
      return misuse("augment", record.name, ": too many arguments, '", argument.value, "'", where,
                    "; it takes ", usage(record));
    }
    return argument_index;
  }
  for (size_t i = 0; i < record.params.size(); ++i) {
    if (record.params[i].name == argument.name) return i;
  }
  const std::string hint = record.params.empty() ? concat("; it takes ", usage(record))
                                                 : suggestion(argument.name, param_names(record));
  return misuse("augment", record.name, ": unknown parameter '", argument.name, "'", where, hint);
}

}  // namespace

std::string at_position(size_t position, std::string_view text) {
  return concat(" at position ", position, " of \"", text, "\"");
}

Result<std::vector<ExpressionCall>> parse_expression(std::string_view text) {
  return Reader(text).expression();
}

Result<OpArguments> bind_arguments(const ExpressionCall& call, const OpRecord& record,
                                   std::string_view text) {
  std::vector<const ExpressionArgument*> given(record.params.size(), nullptr);
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const size_t index, parameter_index(call, i, record, text));
    if (given[index] != nullptr) {
      return misuse("augment", record.name, ": ", record.params[index].name, " is given twice",
                    at_position(call.arguments[i].position, text), "; leave one out");
    }
    given[index] = &call.arguments[i];
  }
  OpArguments arguments;
  for (size_t i = 0; i < record.params.size(); ++i) {
    const OpParam& param = record.params[i];
    if (given[i] == nullptr && param.default_value.empty()) {
      return misuse("augment", record.name, ": ", param.name, " is missing", at_position(call.position, text),
                    "; it takes ", usage(record));
    }
    auto value = canonical_value(param, given[i] ? std::string_view(given[i]->value) : param.default_value);
    if (!value.ok()) {
      const size_t position = given[i] ? given[i]->position : call.position;
      return Status(value.status().code(), concat("[augment] ", record.name, ": ", value.status().message(),
                                                  at_position(position, text)));
    }
    arguments.values.emplace_back(param.name, *std::move(value));
  }
  return arguments;
}

}  // namespace dlpipe::augment
