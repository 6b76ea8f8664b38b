#include "dlpipe/engine/core/op.h"

#include "dlpipe/base/text.h"

namespace dlpipe::engine {

namespace {

const OpRow& builtin_row(const OpRecord& record) {
  for (const OpRow& row : op_table()) {
    if (row.record == &record) return row;
  }
  throw Error(Status(ErrorCode::kInternal, concat("[", record.name, "] is not in the op table")));
}

}  // namespace

std::vector<TensorSpec> specs_of(std::span<const Tensor> tensors) {
  std::vector<TensorSpec> specs(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) specs[i] = tensors[i].spec();
  }
  return specs;
}

std::vector<Tensor> apply(const OpRecord& record, std::vector<Tensor> inputs, Attrs attrs) {
  return apply(builtin_row(record), std::move(inputs), std::move(attrs));
}

void OpRegistry::add(const OpRow& row) {
  const std::string name = row.record->name;
  if (find(name) != nullptr) {
    throw Error(
        Status(ErrorCode::kMisuse, concat("[", name, "] there is an op of this name already; rename yours")));
  }
  rows_.push_back(row);
}

const OpRow* OpRegistry::find(std::string_view name) const {
  for (const OpRow& row : rows_) {
    if (row.record->name == name) return &row;
  }
  return nullptr;
}

const OpRegistry& OpRegistry::builtin() {
  static const OpRegistry registry = [] {
    OpRegistry all;
    for (const OpRow& row : op_table()) all.add(row);
    return all;
  }();
  return registry;
}

namespace thread_state {

Backend& backend() {
  thread_local Backend t_backend = Backend::kCpu;
  return t_backend;
}
DType& autocast() {
  thread_local DType t_dtype = DType::kF32;
  return t_dtype;
}
bool& tf32() {
  thread_local bool t_allowed = false;
  return t_allowed;
}
Cudnn& cudnn() {
  thread_local Cudnn t_cudnn = Cudnn::kAuto;
  return t_cudnn;
}

}  // namespace thread_state

DType autocast_dtype() {
  return thread_state::autocast();
}
bool tf32_allowed() {
  return thread_state::tf32();
}
Cudnn cudnn_use() {
  return thread_state::cudnn();
}

}  // namespace dlpipe::engine
