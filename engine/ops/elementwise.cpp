// What elementwise ops share (elementwise.h), and the two that aren't formulas: dropout, and chains of elementwise ops
// (elementwise_chain.h).
#include "engine/ops/elementwise.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/ops/conversions.h"
#include "engine/ops/dropout.h"
#include "engine/ops/elementwise_chain.h"
#include "engine/ops/records.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine {

std::vector<TensorSpec> unary_rule(std::string_view op, std::span<const TensorSpec> inputs) {
  expect_inputs(op, inputs, 1, 1);
  expect_floating(op, inputs[0], "x");
  return {{inputs[0].shape, inputs[0].dtype}};
}

std::vector<TensorSpec> binary_rule(std::string_view op, std::span<const TensorSpec> inputs) {
  expect_inputs(op, inputs, 2, 2);
  expect_floating(op, inputs[0], "a");
  expect_floating(op, inputs[1], "b");
  return {{broadcast_shape(op, inputs[0].shape, inputs[1].shape), inputs[0].dtype}};
}

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  Shape result = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const int64_t size = shorter[shorter.rank() - i];
    int64_t& out = result[result.rank() - i];
    if (size != out && size != 1 && out != 1) {
      reject(op, concat("shapes ", a.to_string(), " and ", b.to_string(),
                        " do not broadcast; sizes must be equal or 1, counted from the last axis"));
    }
    if (out == 1) out = size;
  }
  return result;
}

std::vector<OpSample> unary_samples(double low, double high, const Attrs& attrs) {
  std::vector<OpSample> samples;
  for (const Shape& shape : {Shape{37}, Shape{2, 3, 5, 16}, Shape{}, Shape{0, 4}, Shape{3, 70001}}) {
    samples.push_back({shape.to_string(), {{shape}}, attrs, low, high});
  }
  return samples;
}

std::vector<OpSample> binary_samples(double low, double high) {
  std::vector<OpSample> samples;
  auto sample = [&](const char* name, const Shape& a, const Shape& b) {
    samples.push_back({name, {{a}, {b}}, NoAttrs{}, low, high});
  };
  sample("same shape", {2, 3, 5, 16}, {2, 3, 5, 16});
  sample("bias", {3, 5, 7}, {7});
  sample("scalar", {}, {4, 9});
  sample("column", {6, 5}, {6, 1});
  sample("both stretched", {3, 1, 5}, {1, 4, 1});
  sample("inner and outer", {2, 3, 4, 5}, {3, 1, 5});
  sample("empty", {0, 3}, {3});
  sample("large image and bias", {4, 50, 40, 24}, {24});
  sample("large rows", {2, 70001}, {2, 1});
  return samples;
}

std::vector<OpSample> binary_bench_samples() {
  const TensorSpec images = {{64, 56, 56, 64}}, tokens = {{8, 1024, 768}};
  const auto sample = [](const char* name, const TensorSpec& a, const TensorSpec& b) {
    return OpSample{name, {a, b}, NoAttrs{}, 0.5, 2};  // not near 0, so that quotients are finite
  };
  return {sample("images", images, images),
          sample("a channel's", images, {{64}}),
          sample("an image's channel's", images, {{64, 1, 1, 64}}),
          sample("positions", tokens, {{1024, 768}}),
          sample("a row's", tokens, {{8, 1024, 1}}),
          sample("a number", tokens, {})};
}

// dropout: zeroes elements with probability p and scales the rest by 1/(1-p) (Srivastava et al., 2014).

static void check_probability(double p) {
  if (!(p >= 0 && p < 1)) reject("dropout", concat("expected a probability from 0 to below 1, got ", p));
}

DropoutAttrs DropoutAttrs::redrawn(const Tensor& x) const {
  RandomState& state = random_state();
  DropoutAttrs attrs{p, state.seed, state.step, state.call++};
  if (state.device_key.defined() && &state.device_key.device() == &x.device()) {
    attrs.device_key = state.device_key;
  } else {
    refuse_capture("dropout draws by a key that the host knows (RandomState::device_key)");
  }
  return attrs;
}

extern const OpRecord dropout_op;
const OpRecord dropout_op = {
    .name = "dropout",
    .attr_form = &attr_form<DropoutAttrs>,
    .infer =
        [](auto inputs, auto, const Attrs& attrs) {
          check_probability(attrs.as<DropoutAttrs>().p);
          return unary_rule("dropout", inputs);
        },
    .samples =
        [] {
          return unary_samples(-1, 1, DropoutAttrs{0.3, 7, 11, 2});
        },
};

RandomState& random_state() {
  thread_local RandomState state;
  return state;
}

Tensor dropout(const Tensor& x, double p, bool training) {
  check_probability(p);
  if (!training || p == 0) return x;
  return apply_one(dropout_op, {x}, DropoutAttrs{p}.redrawn(x));
}

void write_random_key(const RandomState& state) {
  device_code(state.device_key.device())
      .fill(state.device_key.raw(), 1, DropoutAttrs::mixed_key(state.seed, state.step), sizeof(uint64_t));
}

namespace {

constexpr const char* kName = "elementwise_chain";

const OpRow& row_named(std::string_view name) {
  return *value_or_throw(OpRegistry::builtin().find(name));
}

// The widest dtype, as `apply` computes it for ops with Autocast::kFollow.
DType widest(std::span<const TensorSpec> operands) {
  const auto has = [&](DType dtype) {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const TensorSpec& spec) { return spec.dtype == dtype; });
  };
  if (has(DType::kF64)) return DType::kF64;
  if (has(DType::kF32) || (has(DType::kBF16) && has(DType::kF16))) return DType::kF32;
  return operands[0].dtype;
}

// The spec of each step's result. `inputs` are the chain's.
std::vector<TensorSpec> answers_of(std::span<const TensorSpec> inputs, const ChainAttrs& attrs) {
  std::vector<TensorSpec> answers;
  answers.reserve(attrs.steps.size());
  for (size_t k = 0; k < attrs.steps.size(); ++k) {
    const ChainStep& step = attrs.steps[k];
    std::vector<TensorSpec> operands;
    for (const int operand : step.operands) {
      const auto place = static_cast<size_t>(operand >= 0 ? operand : -1 - operand);
      if (place >= (operand >= 0 ? inputs.size() : k))
        reject(kName, concat("step ", k, " reads ", operand >= 0 ? "x" : "y", place,
                             ", which doesn't exist; a step reads inputs and earlier steps"));
      operands.push_back(operand >= 0 ? inputs[place] : answers[place]);
      expect_floating(kName, operands.back(), "an operand");
    }
    constexpr std::array kDefined = {true, true, true};
    expect_inputs(step.op->name(), operands, step.op->record->input_count.least,
                  std::min<size_t>(step.op->record->input_count.most, kDefined.size()));
    const DType dtype = widest(operands);
    for (TensorSpec& operand : operands) operand.dtype = dtype;
    answers.push_back(step.op->record->infer(operands, std::span<const bool>(kDefined).first(operands.size()),
                                             step.attrs)[0]);
  }
  return answers;
}

std::vector<TensorSpec> elementwise_chain_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                               const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ChainAttrs>();
  expect_inputs(kName, inputs, 1, OpRecord::kMostInputs);
  if (attrs.steps.empty()) reject(kName, "expected a step, got none; compile the model again");
  const std::vector<TensorSpec> answers = answers_of(inputs, attrs);
  const Shape& shape = answers.back().shape;
  for (const TensorSpec& input : inputs) {
    if (!extent_of(input.shape, shape))
      reject(kName, concat("expected inputs of ", shape.to_string(),
                           ", of its last axis or of one number, got ", input.shape.to_string()));
  }
  for (const TensorSpec& answer : answers) {
    if (extent_of(answer.shape, shape) != Extent::kAll)
      reject(kName, concat("expected steps that all return ", shape.to_string(), ", got one of ",
                           answer.shape.to_string()));
  }
  return {answers.back()};
}

// Builds a plan: steps, with casts between them.
class Planner {
 public:
  Planner(std::span<const TensorSpec> inputs, const Shape& answer, const ChainBackend& backend)
      : inputs_(inputs), backend_(backend) {
    for (const TensorSpec& input : inputs) {
      plan_.inputs.push_back(extent_of(input.shape, answer).value_or(Extent::kAll));
      if (plan_.inputs.back() == Extent::kChannels) plan_.channels = answer[-1];
    }
  }

  void add(const ChainStep& step) {
    std::vector<TensorSpec> specs;
    std::vector<int> operands;
    for (const int operand : step.operands) {
      operands.push_back(operand >= 0 ? operand : places_[static_cast<size_t>(-1 - operand)]);
      specs.push_back({{}, dtype_of(operands.back())});
    }
    const DType dtype = widest(specs), computed = backend_.takes(dtype) ? dtype : DType::kF32;
    for (int& operand : operands) operand = in_dtype(operand, computed);
    const int place =
        append({backend_.kernels(*step.op, computed, step.attrs), step.attrs, std::move(operands), computed});
    places_.push_back(computed == dtype ? place : in_dtype(place, dtype));
  }

  ChainPlan finish() && {
    share_buffers();
    return std::move(plan_);
  }

 private:
  const ChainPlan::Step* step_of(int operand) const {
    return operand >= 0 ? nullptr : &plan_.steps[static_cast<size_t>(-1 - operand)];
  }
  DType dtype_of(int operand) const {
    return operand >= 0 ? inputs_[static_cast<size_t>(operand)].dtype : step_of(operand)->dtype;
  }
  Extent extent_of_operand(int operand) const {
    return operand >= 0 ? plan_.inputs[static_cast<size_t>(operand)] : step_of(operand)->extent;
  }

  int append(ChainPlan::Step step) {
    plan_.steps.push_back(std::move(step));
    return answer_of_step(plan_.steps.size() - 1);
  }

  int in_dtype(int operand, DType dtype) {
    if (dtype_of(operand) == dtype) return operand;
    const auto [known, is_new] = casts_.try_emplace({operand, dtype}, 0);
    if (is_new) {
      const CastAttrs attrs{dtype};
      known->second = append({backend_.kernels(row_named("cast"), dtype_of(operand), attrs),
                              attrs,
                              {operand},
                              dtype,
                              extent_of_operand(operand)});
    }
    return known->second;
  }

  // A result's buffer is reused after its last reader, not earlier, because kernels may assume that inputs and outputs don't
  // overlap.
  void share_buffers() {
    std::vector<size_t> last_reader(plan_.steps.size(), 0);
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      for (const int operand : plan_.steps[k].operands) {
        if (operand < 0) last_reader[static_cast<size_t>(-1 - operand)] = k;
      }
    }
    std::vector<std::vector<size_t>> dying(plan_.steps.size());  // by step: the results that it reads last
    for (size_t i = 0; i < plan_.steps.size(); ++i) dying[std::max(last_reader[i], i)].push_back(i);
    std::vector<int> free;
    for (size_t k = 0; k + 1 < plan_.steps.size(); ++k) {
      if (free.empty()) free.push_back(plan_.buffers++);
      plan_.steps[k].buffer = free.back();
      free.pop_back();
      for (const size_t i : dying[k]) free.push_back(plan_.steps[i].buffer);
    }
  }

  std::span<const TensorSpec> inputs_;
  const ChainBackend& backend_;
  ChainPlan plan_;
  std::vector<int> places_;  // by step of the chain: its result in the plan
  std::map<std::pair<int, DType>, int> casts_;
};

// The given rows of a tensor with the result's shape, in any layout; all of other tensors.
Tensor part_of(const Tensor& tensor, Extent extent, const Shape& rows, int64_t first) {
  auto* const data = static_cast<std::byte*>(tensor.raw());
  if (extent == Extent::kOne) return Tensor::borrow(data, {1}, tensor.dtype(), tensor.device());
  if (extent == Extent::kChannels) return Tensor::borrow(data, {rows[-1]}, tensor.dtype(), tensor.device());
  const size_t before = static_cast<size_t>(first * rows[-1]) * dtype_size(tensor.dtype());
  return Tensor::borrow(data + before, rows, tensor.dtype(), tensor.device());
}

ChainStep call(std::string_view op, std::vector<int> operands, Attrs attrs = {}) {
  return {&row_named(op), std::move(attrs), std::move(operands)};
}

// x clip(x / 6 + 1 / 2, 0, 1)
ChainAttrs hard_swish() {
  return {{call("scale", {0}, ScaleAttrs{1.0 / 6, 0.5}), call("clip", {answer_of_step(0)}, ClipAttrs{0, 1}),
           call("mul", {0, answer_of_step(1)})}};
}

// (sigmoid(x0) x1 + x2) exp(x0) - x0, with buffers that are reused
ChainAttrs five_steps() {
  return {{call("sigmoid", {0}), call("mul", {answer_of_step(0), 1}), call("add", {answer_of_step(1), 2}),
           call("exp", {0}), call("mul", {answer_of_step(2), answer_of_step(3)}),
           call("sub", {answer_of_step(4), 0})}};
}

std::vector<OpSample> chain_samples() {
  const ChainAttrs swish = hard_swish(), five = five_steps();
  const auto like = [](const char* name, const Shape& shape) {
    return OpSample{name, {{shape}, {shape}, {shape}}, five_steps()};
  };
  std::vector<OpSample> all = {
      {"hard swish", {{{2, 3, 5, 16}}}, swish, -4, 4},
      {"one number", {{Shape{}}}, swish, -4, 4},
      {"nothing", {{Shape{0, 4}}}, swish, -4, 4},
      {"many blocks", {{{3, 70001}}}, swish, -4, 4},
      like("images", {2, 4, 3, 32}),
      {"channels", {{{3, 4, 5, 16}}, {{16}}, {{1, 1, 1, 16}}}, five},
      {"a number and channels", {{{3, 500, 24}}, {{1}}, {{24}}}, five},
      {"a number of rank 0", {{{300, 7}}, {Shape{}}, {{300, 7}}}, five},
      {"rows wider than a block", {{{3, 20000}}, {{20000}}, {{3, 20000}}}, five},
  };
  return all;
}

double chain_flops(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ChainAttrs>();
  const std::vector<TensorSpec> answers = answers_of(inputs, attrs);
  return static_cast<double>(answers.back().shape.elements()) * static_cast<double>(attrs.steps.size());
}

}  // namespace

bool is_elementwise(const OpRecord& record) {
  return std::ranges::count(elementwise_ops(), &record) > 0;
}

std::optional<Extent> extent_of(const Shape& operand, const Shape& answer) {
  if (operand.elements() == answer.elements()) return Extent::kAll;
  if (operand.elements() == 1) return Extent::kOne;
  const bool is_channels = operand.rank() > 0 && answer.rank() > 0 && operand[-1] == answer[-1] &&
                           operand.elements() == answer[-1];
  return is_channels ? std::optional(Extent::kChannels) : std::nullopt;
}

ChainPlan plan_chain(std::span<const TensorSpec> inputs, const Shape& answer, const ChainAttrs& attrs,
                     const ChainBackend& backend) {
  Planner planner(inputs, answer, backend);
  for (const ChainStep& step : attrs.steps) planner.add(step);
  return std::move(planner).finish();
}

ChainRun::ChainRun(const ChainPlan& plan, const ForwardArgs& args, ChainMemory memory)
    : plan_(plan),
      args_(args),
      memory_(std::move(memory)),
      inputs_(args.inputs.size()),
      answers_(plan.steps.size()) {}

// Prepares what is the same in every part with this number of rows.
void ChainRun::fit(const Shape& rows) {
  rows_ = rows;
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = part_of(args_.inputs[i], plan_.inputs[i], rows, 0);
  for (size_t k = 0; k + 1 < answers_.size(); ++k) {
    const Extent extent = plan_.steps[k].extent;
    answers_[k] = memory_(plan_.steps[k], extent == Extent::kAll        ? rows
                                          : extent == Extent::kChannels ? Shape{plan_.channels}
                                                                        : Shape{1});
  }
}

void ChainRun::operator()(int64_t first, int64_t last) {
  const Shape rows = {last - first, plan_.channels};
  if (!(rows == rows_)) fit(rows);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (plan_.inputs[i] == Extent::kAll) inputs_[i] = part_of(args_.inputs[i], Extent::kAll, rows, first);
  }
  answers_.back() = part_of(args_.outputs[0], Extent::kAll, rows, first);
  std::vector<Tensor> operands;
  for (size_t k = 0; k < answers_.size(); ++k) {
    const ChainPlan::Step& step = plan_.steps[k];
    operands.clear();
    for (const int operand : step.operands)
      operands.push_back(operand >= 0 ? inputs_[static_cast<size_t>(operand)]
                                      : answers_[static_cast<size_t>(-1 - operand)]);
    step.kernels->forward({operands, {&answers_[k], 1}, step.attrs});
  }
}

void run_chain(const ForwardArgs& args, const ChainBackend& backend) {
  const Tensor& y = args.outputs[0];
  if (y.elements() == 0) return;
  const ChainPlan plan = plan_chain(specs_of(args.inputs), y.shape(), args.attrs.as<ChainAttrs>(), backend);
  ChainRun run(plan, args, [&](const ChainPlan::Step& step, const Shape& shape) {
    return Tensor::empty({shape, step.dtype, Layout::kPlain}, y.device());
  });
  run(0, y.elements() / plan.channels);
}

static constexpr AttrForm kForm = {
    .list =
        [](const Attrs& attrs) {
          return std::vector<NamedAttr>{{"steps", steps_text(attrs.as<ChainAttrs>().steps)}};
        },
    .make =
        [](std::string_view op, std::span<const NamedAttr> list) {
          constexpr std::array<std::string_view, 1> kKnown = {"steps"};
          attr_form_parts::refuse_unknown(op, list, kKnown);
          return Attrs(ChainAttrs{steps_from(attr_form_parts::value_of(op, list, kKnown[0]))});
        },
    .fields = 1,
};

extern const OpRecord elementwise_chain_op;
const OpRecord elementwise_chain_op{
    .name = kName,
    .attr_form = &kForm,
    .input_count = {1, OpRecord::kMostInputs},
    .infer = elementwise_chain_rule,
    .differentiable = 0,
    .autocast = Autocast::kAsIs,  // each step separately
    .layouts = kAllLayouts,
    .image_inputs = ~0u,
    .batch_inputs = ~0u,
    .samples = chain_samples,
    .bench =
        [] {
          const Shape images{32, 56, 56, 64};
          return std::vector<OpSample>{{"hard swish", {{images}}, hard_swish()}};
        },
    .bf16 = {3e-2, 3e-2, "bf16 has 8 bits of significand, and each step rounds"},
    .f16 = {4e-3, 4e-3, "f16 has 11 bits of significand, and each step rounds"},
    .flops = chain_flops,
};

namespace {

constexpr int64_t kMostOperands = 1 << 20;  // the largest number of an input or a step in the text

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

// Parses a flag, a number or a name as attrs_text writes it.
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
