#include "dlpipe/augment/op.h"

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {
/// A parameter that an op asks for and its record doesn't have, or has as another kind: the op's defect.
Status no_such_argument(std::string_view name, std::string_view kind) {
  return Status(ErrorCode::kInternal,
                concat("[augment] an op asks for parameter '", name, "' as ", kind,
                       ", but its record doesn't declare it so; make its OpRecord and build agree"));
}

const std::string* find_value(const OpArguments& arguments, std::string_view name) {
  for (const auto& [key, value] : arguments.values) {
    if (key == name) return &value;
  }
  return nullptr;
}
}  // namespace

Result<int64_t> OpArguments::integer(std::string_view name) const {
  const std::string* value = find_value(*this, name);
  int64_t number = 0;
  if (value == nullptr || !parse_int(*value, &number)) return no_such_argument(name, "int");
  return number;
}

Result<double> OpArguments::number(std::string_view name) const {
  const std::string* value = find_value(*this, name);
  double number = 0;
  if (value == nullptr || !parse_number(*value, &number)) return no_such_argument(name, "float");
  return number;
}

Result<std::vector<double>> OpArguments::numbers(std::string_view name) const {
  const std::string* value = find_value(*this, name);
  std::vector<double> numbers;
  if (value == nullptr) return no_such_argument(name, "list or range");
  if (*value == "none") return numbers;
  if (!parse_range(*value, &numbers) && !parse_list(*value, &numbers)) {
    return no_such_argument(name, "list or range");
  }
  return numbers;
}

Result<std::string> OpArguments::text(std::string_view name) const {
  const std::string* value = find_value(*this, name);
  if (value == nullptr) return no_such_argument(name, "string");
  return *value;
}

Result<ImageSize> OpArguments::size(std::string_view name, bool* is_single) const {
  const std::string* value = find_value(*this, name);
  ImageSize size;
  bool single = false;
  if (value == nullptr || !parse_size(*value, &size, &single)) return no_such_argument(name, "size");
  if (is_single != nullptr) *is_single = single;
  return size;
}

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
