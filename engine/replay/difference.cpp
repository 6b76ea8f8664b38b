#include "dlpipe/engine/replay/difference.h"

#include <cstring>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/core/tensor_impl.h"

namespace dlpipe::engine::replay {

namespace {

// As a call at this moment would have them, so that only what has no other reason to differ is compared.
bool same_attrs(const OpRecord& record, Attrs first, Attrs second) {
  if (first.is<Layout>()) return second.is<Layout>() && first.as<Layout>() == second.as<Layout>();
  if (record.renew != nullptr) {
    record.renew(first);
    record.renew(second);
  }
  return list_attrs(record, first) == list_attrs(record, second);
}

// Layouts are reorder's, which no graph lists (graph/capture.cpp).
bool can_compare(const Call& call) {
  return call.record == nullptr || call.record->attr_form != nullptr || call.attrs.is<NoAttrs>() ||
         call.attrs.is<Layout>();
}

std::string call_difference(const Call& first, const Call& second) {
  const std::string name = first.name();
  if (first.kind != second.kind || first.record != second.record || first.kernels != second.kernels)
    return concat("one pass runs ", name, " where the next runs ", second.name());
  if (!can_compare(first))
    return concat("the attributes of ", name, " can't be compared: its op has no attr_form");
  if (first.record != nullptr && !same_attrs(*first.record, first.attrs, second.attrs))
    return concat("the attributes of ", name, " change from pass to pass");
  const bool same_tensors = first.inputs == second.inputs && first.outputs == second.outputs &&
                            first.grad_outputs == second.grad_outputs &&
                            first.grad_inputs == second.grad_inputs;
  if (!same_tensors || first.input_specs != second.input_specs || first.leaf.impl() != second.leaf.impl())
    return concat("the tensors of ", name, " change from pass to pass");
  return "";
}

bool same_memory(const MemoryBlock& first, const MemoryBlock& second) {
  if (first.kind != second.kind || first.input != second.input || first.bytes != second.bytes) return false;
  if (first.kind == MemoryBlock::Kind::kLasting)
    return first.memory == second.memory && first.version == second.version;
  if (first.kind != MemoryBlock::Kind::kConstant) return true;
  return first.memory->device->is_host() && second.memory->device->is_host() &&
         std::memcmp(first.memory->data, second.memory->data, first.bytes) == 0;
}

}  // namespace

std::string difference(const Recording& first, const Recording& second) {
  for (const Recording* const one : {&first, &second}) {
    if (!one->refusal().empty()) return one->refusal();
  }
  for (size_t i = 0; i < std::min(first.calls().size(), second.calls().size()); ++i) {
    if (std::string text = call_difference(first.calls()[i], second.calls()[i]); !text.empty()) return text;
  }
  if (first.calls().size() != second.calls().size())
    return concat("one pass runs ", first.calls().size(), " kernels, the next ", second.calls().size());
  if (first.values() != second.values() || first.first_part() != second.first_part() ||
      first.answer() != second.answer() || first.blocks().size() != second.blocks().size())
    return "memory is used in another way from pass to pass";
  for (size_t i = 0; i < first.blocks().size(); ++i) {
    if (same_memory(first.blocks()[i], second.blocks()[i])) continue;
    return first.blocks()[i].kind == MemoryBlock::Kind::kConstant
               ? "the host computes values that change from pass to pass"
               : "memory is used in another way from pass to pass";
  }
  return "";
}

}  // namespace dlpipe::engine::replay
