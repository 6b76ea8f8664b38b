// gelu and silu that exporters write out become those ops, each one pass over memory:
//
//   mul(x, sigmoid(x))                           silu(x)               within silu's tolerance
//   mul(mul(x, add(erf(x / sqrt 2), 1)), 0.5)    gelu(x)               within gelu's tolerance
//
// Constants on either side of an op count alike. What lies between has no other reader.
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/ops/scale.h"

namespace dlpipe::engine::graph {

namespace {

class WrittenOut {
 public:
  explicit WrittenOut(const Graph& graph) : graph_(graph), makers_(graph) {}

  // x of gelu(x) written out, `node` its last op.
  ValueId gelu_input(const Node& node) const {
    ValueId product = scaled(node, 0.5, 0);
    if (product != kNone) {
      const Node* const mul = makers_.maker_for_us(product, "mul");
      return mul == nullptr ? kNone : gelu_factors(mul->inputs[0], mul->inputs[1], false);
    }
    // (x / 2) (1 + erf(...))
    return is_op(node, "mul") ? gelu_factors(node.inputs[0], node.inputs[1], true) : kNone;
  }
  ValueId silu_input(const Node& node) const {
    if (!is_op(node, "mul")) return kNone;
    for (const size_t side : {0, 1}) {
      const Node* const sigmoid = makers_.maker_for_us(node.inputs[1 - side], "sigmoid");
      if (sigmoid != nullptr && sigmoid->inputs[0] == node.inputs[side]) return node.inputs[side];
    }
    return kNone;
  }

 private:
  // x of `node` = x * factor + offset, however it is written.
  ValueId scaled(const Node& node, double factor, double offset) const {
    const auto is_near = [](double a, double b) { return std::fabs(a - b) < 1e-6; };
    if (is_op(node, "scale")) {
      const auto& attrs = node.attrs.as<ScaleAttrs>();
      return is_near(attrs.factor, factor) && is_near(attrs.offset, offset) ? node.inputs[0] : kNone;
    }
    const std::optional<OperandAndNumber> given = operand_and_number(graph_, node);
    if (!given) return kNone;
    const bool fits = (is_op(node, "mul") && is_near(given->number, factor) && offset == 0) ||
                      (is_op(node, "div") && given->is_number_last && is_near(1.0 / given->number, factor) &&
                       offset == 0) ||
                      (is_op(node, "add") && factor == 1 && is_near(given->number, offset));
    return fits ? given->operand : kNone;
  }
  ValueId scaled_value(ValueId id, double factor, double offset) const {
    for (const char* const op : {"scale", "mul", "div", "add"}) {
      if (const Node* const node = makers_.maker_for_us(id, op); node != nullptr)
        return scaled(*node, factor, offset);
    }
    return kNone;
  }
  // x where one is x (x / 2 if `halved`) and the other 1 + erf(x / sqrt 2).
  ValueId gelu_factors(ValueId a, ValueId b, bool halved) const {
    for (int side = 0; side < 2; ++side, std::swap(a, b)) {
      const ValueId erf_value = scaled_value(b, 1, 1);
      const Node* const erf = makers_.maker_for_us(erf_value, "erf");
      const ValueId x = erf == nullptr ? kNone : scaled_value(erf->inputs[0], 1 / std::numbers::sqrt2, 0);
      if (x == kNone) continue;
      if (x == (halved ? scaled_value(a, 0.5, 0) : a)) return x;
    }
    return kNone;
  }

  const Graph& graph_;
  Makers makers_;
};

// Nodes that lose their reader stay, for remove_dead_nodes.
int fuse_what_is_written_out(Graph& graph) {
  int fused = 0;
  const WrittenOut written_out(graph);
  for (Node& node : graph.nodes) {
    if (const ValueId x = written_out.gelu_input(node); x != kNone) {
      become(node, "gelu", {x});
      ++fused;
    } else if (const ValueId y = written_out.silu_input(node); y != kNone) {
      become(node, "silu", {y});
      ++fused;
    }
  }
  return fused;
}

}  // namespace

const Pass fuse_written_out = {"fuse_written_out", "gelu and silu that are written out become those ops",
                               false, fuse_what_is_written_out};

}  // namespace dlpipe::engine::graph
