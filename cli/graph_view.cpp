#include "dlpipe/cli/graph_view.h"

#include <map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/shortened.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/engine/onnx/import.h"

namespace dlpipe::cli {

namespace {

using engine::graph::Graph;
using engine::graph::ValueId;
using formats::Json;

constexpr size_t kMostList = 8192;  // bytes of a list of names that a file may have any number of

int64_t parameters_of(const Graph& graph) {
  int64_t parameters = 0;
  for (const engine::graph::Value& value : graph.values) {
    if (value.is_constant()) parameters += value.shape.elements();
  }
  return parameters;
}

std::map<std::string, int64_t> nodes_by_op(const Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const engine::graph::Node& node : graph.nodes) ++counts[node.op->name()];
  return counts;
}

std::string values_text(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) {
    const engine::graph::Value& value = graph.value(id);
    text += concat(text.empty() ? "" : ", ", short_name(value.name), " ", value.type_text());
  }
  return shortened(text, kMostList);
}

Json values_json(const Graph& graph, const std::vector<ValueId>& ids) {
  Json values = Json::array();
  for (const ValueId id : ids) {
    const engine::graph::Value& value = graph.value(id);
    values.push_back(Json::object({{"name", value.name}, {"type", value.type_text()}}));
  }
  return values;
}

}  // namespace

std::string graph_summary(const std::string& path, const Graph& graph, bool is_compiled) {
  std::string ops;
  for (const auto& [name, count] : nodes_by_op(graph))
    ops += concat(ops.empty() ? "" : ", ", count, " ", name);
  constexpr size_t kColumn = 12;
  return prose(concat("path        ", printable(path), "\nmodel       ", short_name(graph.name),
                      is_compiled ? ", compiled" : ", ONNX", "\ninputs      ",
                      values_text(graph, graph.inputs), "\noutputs     ", values_text(graph, graph.outputs),
                      "\nparameters  ", human_count(parameters_of(graph)), "\nnodes       ",
                      human_count(static_cast<int64_t>(graph.nodes.size())), ": ", ops,
                      "\n            --graph prints them, ",
                      is_compiled ? std::string("--profile times them")
                                  : concat("`dlpipe compile ", shell_word(path),
                                           " -o model.dlg` makes a file of them that runs")),
               kColumn);
}

std::string onnx_summary(const std::string& path, const engine::onnx::Model& model) {
  const auto values = [](const std::vector<engine::onnx::ValueInfo>& infos) {
    std::string text;
    for (const engine::onnx::ValueInfo& info : infos)
      text +=
          concat(text.empty() ? "" : ", ", short_name(info.name), " ",
                 engine::onnx::element_type_name(info.type), " ", short_name(engine::onnx::shape_text(info)));
    return shortened(text, kMostList);
  };
  std::map<std::string, int64_t> counts;
  for (const engine::onnx::NodeEntry& node : model.nodes) ++counts[node.op];
  std::string ops;
  for (const auto& [name, count] : counts)
    ops += concat(ops.empty() ? "" : ", ", count, " ", short_name(name));
  const auto opset = model.opsets.find("");
  constexpr size_t kColumn = 12;
  return prose(
      concat("path        ", printable(path), "\nmodel       ", short_name(model.graph_name), ", ONNX opset ",
             opset == model.opsets.end() ? 1 : opset->second, " of ", short_name(model.producer), " ",
             short_name(model.producer_version), "\ninputs      ", values(engine::onnx::open_inputs(model)),
             "\noutputs     ", values(model.outputs), "\nnodes       ",
             human_count(static_cast<int64_t>(model.nodes.size())), ": ", shortened(ops, kMostList)),
      kColumn);
}

Json graph_summary_json(const std::string& path, const Graph& graph, bool is_compiled) {
  Json ops = Json::object();
  for (const auto& [name, count] : nodes_by_op(graph)) ops.set(name, count);
  return Json::object()
      .set_path("path", path)
      .set("kind", is_compiled ? "graph" : "onnx")
      .set("model", graph.name)
      .set("inputs", values_json(graph, graph.inputs))
      .set("outputs", values_json(graph, graph.outputs))
      .set("parameters", parameters_of(graph))
      .set("nodes", static_cast<int64_t>(graph.nodes.size()))
      .set("ops", std::move(ops));
}

}  // namespace dlpipe::cli
