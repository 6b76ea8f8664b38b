#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {
namespace {

/// Puts eval mode and no hooks for its life, then the former mode back.
class EvalScope {
 public:
  explicit EvalScope(Module& model) : model_(model), was_training_(model.is_training()) { model.eval(); }
  ~EvalScope() {
    for (const Module::Named& named : model_.modules()) named.module->clear_forward_hooks();
    model_.train(was_training_);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  Module& model_;
  bool was_training_;
};

int64_t own_parameters(const Module& layer) {
  int64_t count = 0;
  for (const NamedTensor& parameter : layer.parameters()) count += parameter.tensor.elements();
  return count;
}

using Row = std::array<std::string, 6>;

std::string format_table(const std::vector<Row>& rows) {
  std::array<size_t, 6> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::ostringstream out;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_text = i < 3;
      out << (i > 0 ? "  " : "") << (is_text ? std::left : std::right)
          << std::setw(static_cast<int>(widths[i])) << row[i];
    }
    out << '\n';
  }
  return std::move(out).str();
}

}  // namespace

ModelSummary summarize(Module& model, const ModelArguments& arguments, int64_t batch) {
  ModelSummary result;
  const NoGrad no_grad;
  const EvalScope scope(model);
  for (const Module::Named& named : model.modules()) {
    if (!named.module->children().empty()) continue;
    named.module->register_forward_hook(
        [&, name = named.name](Module& layer, const Tensor& x, const Tensor& y) {
          LayerSummary row{
              name, layer.kind(), y.shape(), own_parameters(layer), layer.flops(x.spec(), y.spec()), 0};
          row.flops *= static_cast<double>(batch);
          row.output_bytes = static_cast<int64_t>(y.size_bytes()) * batch;
          if (row.output.rank() > 0) row.output[0] *= batch;
          result.layers.push_back(std::move(row));
        });
  }
  model(blank_input(arguments, 1).to(model.device()));

  for (const LayerSummary& layer : result.layers) {
    result.flops += layer.flops;
    result.activation_bytes += layer.output_bytes;
  }
  for (const NamedTensor& entry : model.state_dict())
    result.state_bytes += static_cast<int64_t>(entry.tensor.size_bytes());
  for (const NamedTensor& parameter : model.parameters()) {
    result.parameters += parameter.tensor.elements();
    if (!parameter.tensor.requires_grad()) continue;
    result.trainable_parameters += parameter.tensor.elements();
    result.gradient_bytes += static_cast<int64_t>(parameter.tensor.size_bytes());
  }
  return result;
}

std::string summary(Module& model, const ModelArguments& arguments, int64_t batch) {
  const ModelSummary totals = summarize(model, arguments, batch);
  std::vector<Row> rows = {{"layer", "kind", "output", "parameters", "MFLOP", "memory"}};
  for (const LayerSummary& layer : totals.layers) {
    rows.push_back({layer.name, layer.kind, layer.output.to_string(), human_count(layer.parameters),
                    fixed(layer.flops * 1e-6, 2), human_bytes(static_cast<uint64_t>(layer.output_bytes))});
  }
  rows.push_back({"total", "", "", human_count(totals.parameters), fixed(totals.flops * 1e-6, 2),
                  human_bytes(static_cast<uint64_t>(totals.activation_bytes))});
  return format_table(rows) + concat("batch ", batch, ", forward pass; ",
                                     human_count(totals.trainable_parameters),
                                     " parameters are trained; weights and buffers ",
                                     human_bytes(static_cast<uint64_t>(totals.state_bytes)), ", gradients ",
                                     human_bytes(static_cast<uint64_t>(totals.gradient_bytes)), "\n");
}

}  // namespace dlpipe::engine
