// Chains of elementwise ops that the table has one op for, in one pass over memory:
//
//   relu(add(a, b))                              add_relu(a, b)        the same bits
//   mul(x, sigmoid(x))                           silu(x)               within silu's tolerance
//   mul(mul(x, add(erf(x / sqrt 2), 1)), 0.5)    gelu(x)               within gelu's tolerance; what exporters write
//
// Constants on either side of an op count alike. What lies between has no other reader.
#include <cmath>
#include <numbers>
#include <optional>

#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/ops/scale.h"

namespace dlpipe::engine::graph {

namespace {

class Chains {
 public:
  explicit Chains(const Graph& graph) : graph_(graph), uses_(graph.uses()), producers_(graph.producers()) {}

  // The node that makes `id`, where it is `op` and, unless `shared`, has this one reader.
  const Node* maker(ValueId id, std::string_view op, bool shared = false) const {
    if (id == kNone) return nullptr;
    const int index = producers_[static_cast<size_t>(id)];
    if (index < 0 || (!shared && uses_[static_cast<size_t>(id)] != 1)) return nullptr;
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    return is_op(node, op) ? &node : nullptr;
  }
  std::optional<double> number(ValueId id) const {
    if (id == kNone || !graph_.value(id).is_constant() || graph_.value(id).shape.elements() != 1)
      return std::nullopt;
    return graph_.value(id).constant.to_doubles()[0];
  }
  // x of `node` = x * factor + offset, however it is written.
  ValueId scaled(const Node& node, double factor, double offset) const {
    const auto is_near = [](double a, double b) { return std::fabs(a - b) < 1e-6; };
    if (is_op(node, "scale")) {
      const auto& attrs = node.attrs.as<ScaleAttrs>();
      return is_near(attrs.factor, factor) && is_near(attrs.offset, offset) ? node.inputs[0] : kNone;
    }
    for (const size_t side : {0, 1}) {
      if (node.inputs.size() != 2) break;
      const std::optional<double> value = number(node.inputs[1 - side]);
      if (!value) continue;
      const bool fits = (is_op(node, "mul") && is_near(*value, factor) && offset == 0) ||
                        (is_op(node, "div") && side == 0 && is_near(1.0 / *value, factor) && offset == 0) ||
                        (is_op(node, "add") && factor == 1 && is_near(*value, offset));
      if (fits) return node.inputs[side];
    }
    return kNone;
  }
  ValueId scaled_value(ValueId id, double factor, double offset) const {
    for (const char* const op : {"scale", "mul", "div", "add"}) {
      if (const Node* const node = maker(id, op); node != nullptr) return scaled(*node, factor, offset);
    }
    return kNone;
  }

  // x of gelu(x) written out, `node` its last op.
  ValueId gelu_input(const Node& node) const {
    ValueId product = scaled(node, 0.5, 0);
    if (product != kNone) {
      const Node* const mul = maker(product, "mul");
      return mul == nullptr ? kNone : gelu_factors(mul->inputs[0], mul->inputs[1], false);
    }
    // (x / 2) (1 + erf(...))
    return is_op(node, "mul") ? gelu_factors(node.inputs[0], node.inputs[1], true) : kNone;
  }
  // x where one is x (x / 2 if `halved`) and the other 1 + erf(x / sqrt 2).
  ValueId gelu_factors(ValueId a, ValueId b, bool halved) const {
    for (int side = 0; side < 2; ++side, std::swap(a, b)) {
      const ValueId erf_value = scaled_value(b, 1, 1);
      const Node* const erf = maker(erf_value, "erf");
      const ValueId x = erf == nullptr ? kNone : scaled_value(erf->inputs[0], 1 / std::numbers::sqrt2, 0);
      if (x == kNone) continue;
      if (x == (halved ? scaled_value(a, 0.5, 0) : a)) return x;
    }
    return kNone;
  }

  ValueId silu_input(const Node& node) const {
    if (!is_op(node, "mul")) return kNone;
    for (const size_t side : {0, 1}) {
      const Node* const sigmoid = maker(node.inputs[1 - side], "sigmoid");
      if (sigmoid != nullptr && sigmoid->inputs[0] == node.inputs[side]) return node.inputs[side];
    }
    return kNone;
  }

 private:
  const Graph& graph_;
  std::vector<int> uses_;
  std::vector<int> producers_;
};

void become(Node& node, const char* op, std::vector<ValueId> inputs) {
  node.op = &row_of(op);
  node.attrs = NoAttrs{};
  node.inputs = std::move(inputs);
}

// Nodes that lose their reader stay, for remove_dead_nodes.
int fuse_same_bits(Graph& graph) {
  int fused = 0;
  const Chains chains(graph);
  for (Node& node : graph.nodes) {
    if (!is_op(node, "relu")) continue;
    const Node* const add = chains.maker(node.inputs[0], "add");
    if (add == nullptr) continue;
    become(node, "add_relu", add->inputs);
    ++fused;
  }
  return fused;
}

int fuse_chains(Graph& graph) {
  int fused = 0;
  for (Node& node : graph.nodes) {
    const Chains chains(graph);
    if (const ValueId x = chains.gelu_input(node); x != kNone) {
      become(node, "gelu", {x});
      ++fused;
    } else if (const ValueId y = chains.silu_input(node); y != kNone) {
      become(node, "silu", {y});
      ++fused;
    }
  }
  return fused;
}

}  // namespace

const Pass fuse_add_relu = {"fuse_add_relu", "an add and the relu behind it are one pass", true,
                            fuse_same_bits};
const Pass fuse_written_out = {"fuse_written_out", "gelu and silu that are written out become those ops",
                               false, fuse_chains};

}  // namespace dlpipe::engine::graph
