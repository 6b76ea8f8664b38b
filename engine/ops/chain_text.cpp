#include "dlpipe/engine/ops/chain_text.h"

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine {

namespace {

constexpr int64_t kMostOperands = 1 << 20;  // place of an input or a step

[[noreturn]] void corrupt(const auto&... parts) {
  throw Error(
      Status(ErrorCode::kCorrupt,
             concat("[elementwise_chain] expected steps like 'scale(x0) factor=2 offset=0; mul(x0,y0)'"
                    " of elementwise ops, got ",
                    parts..., "; compile the model again")));
}

int operand_from(std::string_view text) {
  int64_t place = 0;
  if (text.size() < 2 || (text[0] != 'x' && text[0] != 'y') || !parse_int(text.substr(1), &place) ||
      place < 0 || place > kMostOperands)
    corrupt("the operand '", text, "'");
  return text[0] == 'x' ? static_cast<int>(place) : answer_of_step(static_cast<size_t>(place));
}

// What attrs_text writes of a flag, a number or a name.
AttrValue value_from_text(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  int64_t whole = 0;
  if (text != "-0" && parse_int(text, &whole)) return whole;
  double number = 0;
  if (parse_double(text, &number)) return number;
  return text;
}

ChainStep step_from(std::string_view text) {
  const size_t open = text.find('('), close = text.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    corrupt("the step '", text, "'");
  ChainStep step;
  step.op = OpRegistry::builtin().get(text.substr(0, open));
  if (step.op == nullptr || !is_elementwise(*step.op->record)) corrupt("the op '", text.substr(0, open), "'");
  for (const std::string& operand : split(text.substr(open + 1, close - open - 1), ','))
    step.operands.push_back(operand_from(operand));
  std::vector<NamedAttr> attrs;
  for (const std::string& attr : split(trim(text.substr(close + 1)), ' ')) {
    const size_t equals = attr.find('=');
    if (attr.empty()) continue;
    if (equals == std::string::npos) corrupt("the attribute '", attr, "'");
    attrs.push_back({attr.substr(0, equals), value_from_text(attr.substr(equals + 1))});
  }
  step.attrs = make_attrs(*step.op->record, attrs);
  return step;
}

}  // namespace

std::string steps_text(std::span<const ChainStep> steps) {
  std::string text;
  for (const ChainStep& step : steps) {
    std::string operands;
    for (const int operand : step.operands)
      operands += concat(operands.empty() ? "" : ",", operand >= 0 ? 'x' : 'y',
                         operand >= 0 ? operand : -1 - operand);
    const std::string attrs = attrs_text(list_attrs(*step.op->record, step.attrs));
    text += concat(text.empty() ? "" : "; ", step.op->name(), "(", operands, ")", attrs.empty() ? "" : " ",
                   attrs);
  }
  return text;
}

std::vector<ChainStep> steps_from(const AttrValue& value) {
  const auto* const text = std::get_if<std::string>(&value);
  if (text == nullptr) corrupt("no text");
  std::vector<ChainStep> steps;
  for (const std::string& step : split(*text, ';')) steps.push_back(step_from(trim(step)));
  return steps;
}

}  // namespace dlpipe::engine
