// From an expression to a chain's links, and back to text.
#include <algorithm>
#include <cctype>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/chain_link.h"
#include "dlpipe/augment/expression.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

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

/// A name in small letters, without what libraries write differently: "RandomResizedCrop" and "resized_crop" are one.
std::string bare_name(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::string_view kRandom = "random";
  return bare.starts_with(kRandom) ? bare.substr(kRandom.size()) : bare;
}

/// What is no op of one picture, and where it is instead; empty: none of it.
std::string_view told_elsewhere(std::string_view name) {
  struct Elsewhere {
    std::string_view name;  // bare
    std::string_view where;
  };
  static constexpr Elsewhere kAll[] = {
      {"mixup", "it mixes the pictures of a batch: --mixup ALPHA, mixup= in Python"},
      {"cutmix", "it mixes the pictures of a batch: --cutmix ALPHA, cutmix= in Python"},
      {"fivecrop",
       "it makes several pictures of one: `dlpipe eval --ckpt RUN DATA --tta five_crop` judges by them"},
      {"tencrop",
       "it makes several pictures of one: `dlpipe eval --ckpt RUN DATA --tta ten_crop` judges by them"}};
  for (const Elsewhere& one : kAll) {
    if (one.name == bare_name(name)) return one.where;
  }
  return {};
}

/// The op that other libraries call so: helps name it in brackets, "(RandomResizedCrop)". Empty: none.
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
    return misuse("augment", "unknown op '", call.name, "'", at_position(call.position, text),
                  "; here it is '", other, "'");
  }
  if (const std::string_view where = told_elsewhere(call.name); !where.empty()) {
    return misuse("augment", "'", call.name, "'", at_position(call.position, text),
                  " is no op of one picture; ", where);
  }
  return misuse("augment", "unknown op '", call.name, "'", at_position(call.position, text),
                suggestion(call.name, registry.names()));
}

/// The chain's alternatives of a parameter of kind "ops": divided at each '|' outside of brackets.
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
      return misuse("augment", record->name, where, " stands inside ", kMostNested,
                    " other ops; write it further out");
    }
    std::string canonical;
    const std::string written = arguments.values[i].second;
    for (const std::string_view piece : alternatives(written)) {
      DLPIPE_ASSIGN_OR_RETURN(Chain inner, parse_nested(piece, registry, depth + 1));
      for (const auto& link : inner.links_) {
        if (link->prep != nullptr) {
          return misuse("augment", link->record->name, " stands inside ", record->name, where,
                        ", but describes the whole batch; put it at the end of the chain");
        }
        if (link->join != nullptr) {
          return misuse("augment", link->record->name, " stands inside ", record->name, where,
                        ", but puts several pictures into one; put it into the chain itself, with p");
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
                    ", which has put several pictures into one already; leave one of them out");
    }
    if (before->prep == nullptr) continue;
    if ((*link)->prep == nullptr) {
      return misuse("augment", record->name, where, " can't follow ", before->record->name,
                    ", which describes the finished batch; put ", before->record->name, " at the end");
    }
    if (before->record == record) {
      return misuse("augment", "second ", record->name, where, "; a batch takes one, leave the other out");
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
