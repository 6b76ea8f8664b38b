#include "dlpipe/engine/graph/matching.h"

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine::graph {

bool is_op(const Node& node, std::string_view name) {
  return node.op->record->name == name;
}

const OpRow& row_of(std::string_view name) {
  for (const OpRow& row : op_table()) {
    if (row.record->name == name) return row;
  }
  throw Error(Status(ErrorCode::kInternal, concat("[graph] there is no op '", name, "'")));
}

AttrValue attribute(const Node& node, std::string_view name) {
  for (const NamedAttr& attr : list_attrs(*node.op->record, node.attrs)) {
    if (attr.name == name) return attr.value;
  }
  throw Error(Status(ErrorCode::kInternal,
                     concat("[graph] ", node.op->record->name, " has no attribute '", name, "'")));
}

void set_attribute(Node& node, std::string_view name, AttrValue value) {
  std::vector<NamedAttr> list = list_attrs(*node.op->record, node.attrs);
  for (NamedAttr& attr : list) {
    if (attr.name != name) continue;
    attr.value = std::move(value);
    break;
  }
  node.attrs = make_attrs(*node.op->record, list);
}

std::string beside(std::string_view weight, std::string_view name) {
  const size_t dot = weight.rfind('.');
  return dot == std::string_view::npos ? concat(weight, ".", name) : concat(weight.substr(0, dot), ".", name);
}

}  // namespace dlpipe::engine::graph
