// From an expression to a chain's links, and back to text: the grammar, then the ops.
#include "augment/expression.h"

#include <algorithm>
#include <cctype>

#include "augment/arguments.h"
#include "augment/chain_link.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/error.h"

namespace dlpipe::augment {

namespace {

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Reads one expression from left to right. Each function consumes what it is named after.
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

  /// Whether the text before at_, ignoring blanks, ends a name that begins at `begin` or later.
  bool is_after_name(size_t begin) const {
    size_t i = at_;
    while (i > begin && is_blank(text_[i - 1])) --i;
    return i > begin && is_name(text_[i - 1]);
  }

  /// The first '=' of `text` from `at` on that is not in brackets.
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
        return misuse("augment", record.name, ": ", in_quotes(argument.value), where,
                      " has no name but follows a named argument; name it too: ", usage(record));
      }
    }
    if (argument_index >= record.params.size()) {
      return misuse("augment", record.name, ": too many arguments, ", in_quotes(argument.value), where,
                    "; it takes ", usage(record));
    }
    return argument_index;
  }
  for (size_t i = 0; i < record.params.size(); ++i) {
    if (record.params[i].name == argument.name) return i;
  }
  const std::string hint = record.params.empty() ? concat("; it takes ", usage(record))
                                                 : suggestion(argument.name, param_names(record));
  return misuse("augment", record.name, ": unknown parameter ", in_quotes(argument.name), where, hint);
}

}  // namespace

std::string at_position(size_t position, std::string_view text) {
  constexpr size_t kAround = 100;  // bytes of a long text before and after the position
  if (text.size() <= 4 * kAround) return concat(" at position ", position, " of \"", text, "\"");
  const size_t begin = position > kAround ? position - kAround : 0;
  const std::string_view piece = text.substr(begin, 2 * kAround);
  return concat(" at position ", position, " of \"", begin > 0 ? "..." : "", piece,
                begin + piece.size() < text.size() ? "..." : "", "\"");
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

// --- calls become links

namespace {

constexpr int kMostNested = 6;

std::string call_text(const OpRecord& record, const OpArguments& arguments) {
  std::string values;
  for (size_t i = 0; i < arguments.values.size(); ++i) {
    const auto& [name, value] = arguments.values[i];
    if (record.params[i].is_late && value == record.params[i].default_value) continue;
    values += concat(values.empty() ? "" : ",", name, "=", value);
  }
  return values.empty() ? std::string(record.name) : concat(record.name, "(", values, ")");
}

/// A name in lower case, without the differences between libraries' spellings: "RandomResizedCrop" and "resized_crop" are
/// equal.
std::string bare_name(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::string_view kRandom = "random";
  return bare.starts_with(kRandom) ? bare.substr(kRandom.size()) : bare;
}

/// Names that are not ops of one image: where to find them instead; empty for other names.
std::string_view told_elsewhere(std::string_view name) {
  struct Elsewhere {
    std::string_view name;  // bare
    std::string_view where;
  };
  static constexpr Elsewhere kAll[] = {
      {"mixup", "it mixes the images of a batch: --mixup ALPHA, mixup= in Python"},
      {"cutmix", "it mixes the images of a batch: --cutmix ALPHA, cutmix= in Python"},
      {"fivecrop",
       "it makes several images from one: `dlpipe eval --ckpt RUN DATA --tta five_crop` evaluates with them"},
      {"tencrop",
       "it makes several images from one: `dlpipe eval --ckpt RUN DATA --tta ten_crop` evaluates with them"}};
  for (const Elsewhere& one : kAll) {
    if (one.name == bare_name(name)) return one.where;
  }
  return {};
}

/// The op that has this name in other libraries: help texts have it in brackets, "(RandomResizedCrop)". Empty: none.
std::string op_named_elsewhere(std::string_view name, const OpRegistry& registry) {
  const std::string wanted = bare_name(name);
  for (const OpRecord* record : registry.records()) {
    const std::string_view help = record->help;
    const size_t open = help.find('('), close = help.find(')');
    std::vector<std::string> names;
    if (open < close && close != std::string_view::npos)
      names = split(help.substr(open + 1, close - open - 1), ',');
    names.emplace_back(record->name);
    if (std::ranges::any_of(names, [&](std::string_view one) { return bare_name(one) == wanted; }))
      return std::string(record->name);
  }
  return {};
}

Status find_record(const ExpressionCall& call, const OpRegistry& registry, std::string_view text,
                   const OpRecord** record) {
  *record = registry.get(call.name);
  if (*record != nullptr) return {};
  if (const std::string other = op_named_elsewhere(call.name, registry); !other.empty()) {
    return misuse("augment", "unknown op ", in_quotes(call.name), at_position(call.position, text),
                  "; dlpipe calls it '", other, "'");
  }
  if (const std::string_view where = told_elsewhere(call.name); !where.empty()) {
    return misuse("augment", in_quotes(call.name), at_position(call.position, text),
                  " is not an op for single images; ", where);
  }
  return misuse("augment", "unknown op ", in_quotes(call.name), at_position(call.position, text),
                suggestion(call.name, registry.names()));
}

/// Splits the value of a parameter of kind "ops" into alternatives, at each '|' outside of brackets.
std::vector<std::string_view> alternatives(std::string_view text) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] != '|' || depth > 0) continue;
    pieces.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  pieces.push_back(trim(text.substr(begin)));
  return pieces;
}

Result<std::shared_ptr<const ChainLink>> build_link(const OpRecord& record, OpArguments& arguments) {
  auto link = std::make_shared<ChainLink>();
  link->record = &record;
  link->text = call_text(record, arguments);
  link->takes_probability = !record.params.empty() && record.params.back().name == "p";
  if (link->takes_probability) link->probability = arguments.number("p");
  if (record.build_prep != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(link->prep, record.build_prep(arguments));
  } else if (record.build_policy != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(link->policy, record.build_policy(arguments));
    link->choices = link->policy->choices();
  } else {
    DLPIPE_ASSIGN_OR_RETURN(link->op, record.build(arguments));
    link->resize = dynamic_cast<const ResizeOp*>(link->op.get());
    link->join = dynamic_cast<const JoinOp*>(link->op.get());
    link->paste = dynamic_cast<const PasteOp*>(link->op.get());
    link->boxed = dynamic_cast<const BoxedOp*>(link->op.get());
    link->judge = dynamic_cast<const BoxJudge*>(link->op.get());
  }
  if (!arguments.defect().ok()) return arguments.defect();
  return std::shared_ptr<const ChainLink>(std::move(link));
}

}  // namespace

Result<Chain> Chain::parse(std::string_view expression, const OpRegistry& registry) {
  return parse_nested(expression, registry, 0);
}

Result<Chain> Chain::parse_nested(std::string_view expression, const OpRegistry& registry, int depth) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ExpressionCall> calls, parse_expression(expression));
  Chain chain;
  for (const ExpressionCall& call : calls)
    DLPIPE_RETURN_IF_ERROR(chain.add_call(call, expression, registry, depth));
  return chain;
}

Status Chain::add_call(const ExpressionCall& call, std::string_view expression, const OpRegistry& registry,
                       int depth) {
  const OpRecord* record = nullptr;
  DLPIPE_RETURN_IF_ERROR(find_record(call, registry, expression, &record));
  DLPIPE_ASSIGN_OR_RETURN(OpArguments arguments, bind_arguments(call, *record, expression));
  const std::string where = at_position(call.position, expression);
  for (size_t i = 0; i < record->params.size(); ++i) {
    if (record->params[i].kind != "ops") continue;
    if (depth == kMostNested) {
      return misuse("augment", record->name, where, " is nested inside ", kMostNested,
                    " other ops; reduce the nesting");
    }
    std::string canonical;
    const std::string written = arguments.values[i].second;
    for (const std::string_view piece : alternatives(written)) {
      DLPIPE_ASSIGN_OR_RETURN(Chain inner, parse_nested(piece, registry, depth + 1));
      for (const auto& link : inner.links_) {
        if (link->prep != nullptr) {
          return misuse("augment", link->record->name, " is inside ", record->name, where,
                        ", but describes the whole batch; put it at the end of the chain");
        }
        if (link->join != nullptr) {
          return misuse("augment", link->record->name, " is inside ", record->name, where,
                        ", but joins several images; put it directly into the chain, with p");
        }
      }
      canonical += (arguments.chains.empty() ? "" : " | ") + inner.canonical();
      arguments.chains.push_back(std::make_shared<const Chain>(std::move(inner)));
    }
    arguments.values[i].second = canonical;
  }
  Result<std::shared_ptr<const ChainLink>> link = build_link(*record, arguments);
  if (!link.ok()) {
    return {link.status().code(), concat("[augment] ", record->name, ": ", link.status().message(), where)};
  }
  for (const auto& before : links_) {
    if (before->join != nullptr && (*link)->join != nullptr) {
      return misuse("augment", record->name, where, " can't follow ", before->record->name,
                    ", which has already joined several images; leave one of them out");
    }
    if (before->prep == nullptr) continue;
    if ((*link)->prep == nullptr) {
      return misuse("augment", record->name, where, " can't follow ", before->record->name,
                    ", which describes the finished batch; put ", before->record->name, " at the end");
    }
    if (before->record == record) {
      return misuse("augment", "second ", record->name, where,
                    "; a batch allows only one, so leave the other out");
    }
  }
  links_.push_back(*std::move(link));
  return {};
}

std::string Chain::canonical() const {
  std::string text;
  for (const auto& link : links_) {
    text += (text.empty() ? "" : " ") + link->text + "@" + std::to_string(link->record->version);
  }
  return text;
}

}  // namespace dlpipe::augment
