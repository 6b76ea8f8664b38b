#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

const OpRegistry& OpRegistry::builtin() {
  static const OpRegistry registry = [] {
    OpRegistry built;
    for (const OpRecord* record : augmentation_table()) built.add(*record);
    return built;
  }();
  return registry;
}

void OpRegistry::add(const OpRecord& record) {
  for (const OpRecord*& known : records_) {
    if (std::string_view(known->name) == record.name) {
      known = &record;
      return;
    }
  }
  records_.push_back(&record);
}

const OpRecord* OpRegistry::find(std::string_view name) const {
  for (const OpRecord* record : records_) {
    if (record->name == name) return record;
  }
  return nullptr;
}

}  // namespace dlpipe::augment
