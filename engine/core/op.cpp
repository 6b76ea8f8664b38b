#include "dlpipe/op.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::engine {

namespace {

const OpRow& builtin_row(const OpRecord& record) {
  for (const OpRow& row : op_table()) {
    if (row.record == &record) return row;
  }
  throw Error(Status(ErrorCode::kInternal, concat("[", record.name, "] is not in the op table")));
}

// The type's name as in the source, without the engine's namespace.
std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  const std::string name = text != nullptr ? text.get() : type.name();
  constexpr std::string_view kOurs = "dlpipe::engine::";
  return name.starts_with(kOurs) ? name.substr(kOurs.size()) : name;
}

}  // namespace

void Attrs::refuse_type(const std::type_info& expected) const {
  refuse("op", "expected attributes of type ", type_name(expected), ", got ", type_name(value_.type()),
         "; use the attributes from the op's header");
}

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

std::span<const OpRow> OpRow::built_in() {
  return op_table();
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
