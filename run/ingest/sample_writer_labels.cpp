// How labels become numbers.
#include <algorithm>
#include <span>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/ingest/sample_writer_impl.h"

namespace dlpipe::ingest {

namespace {

constexpr int64_t kMostClasses = 1'000'000;

}  // namespace

Result<int64_t> SampleWriter::Impl::number_of(const NewSample::Label& label) {
  std::vector<std::string>& classes = state.schema.classes;
  if (const auto* name = std::get_if<std::string>(&label)) {
    const auto found = std::find(classes.begin(), classes.end(), *name);
    if (state.labels == Labels::kNumbers)
      return misuse("writer", "sample ", next, " has the label '", printable(*name),
                    "', those before were numbers; give classes, or labels of one kind");
    if (found != classes.end()) return found - classes.begin();
    if (state.labels == Labels::kFixed)
      return misuse("writer", "sample ", next, " has the label '", printable(*name), "', which is no class",
                    printable(suggestion(*name, classes)));
    if (static_cast<int64_t>(classes.size()) == kMostClasses)
      return misuse("writer", "sample ", next, ": more than ", kMostClasses,
                    " classes; give labels as numbers, or fewer names");
    state.labels = Labels::kNames;
    classes.push_back(*name);
    return static_cast<int64_t>(classes.size()) - 1;
  }
  const auto* number = std::get_if<int64_t>(&label);
  if (number == nullptr || *number == -1) return -1;
  if (state.labels == Labels::kNames)
    return misuse("writer", "sample ", next, " has the label ", *number,
                  ", those before were names; give classes, or labels of one kind");
  const int64_t most = state.labels == Labels::kFixed ? static_cast<int64_t>(classes.size()) : kMostClasses;
  if (*number < 0 || *number >= most)
    return misuse("writer", "sample ", next, " has the label ", *number, " of ", most,
                  " classes; -1 is no class");
  if (state.labels == Labels::kFixed) return *number;
  state.labels = Labels::kNumbers;
  while (static_cast<int64_t>(classes.size()) <= *number) classes.push_back(concat(classes.size()));
  return *number;
}

Result<int64_t> SampleWriter::Impl::number_labels(NewSample& sample) {
  const std::vector<data::Field>& fields = options.fields;
  DLPIPE_ASSIGN_OR_RETURN(const int64_t label, number_of(sample.label));
  auto labels = sample.labels.begin();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind != data::FieldKind::kLabels) continue;
    std::vector<int64_t> numbers;
    for (const NewSample::Label& one : *labels++) {
      DLPIPE_ASSIGN_OR_RETURN(numbers.emplace_back(), number_of(one));
      if (numbers.back() < 0)
        return misuse("writer", "sample ", next, ": field '", printable(fields[i].name),
                      "' holds a label that is no class; leave it out");
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    sample.values[i].assign(bytes.begin(), bytes.end());
  }
  const std::vector<std::span<const std::byte>> values(sample.values.begin(), sample.values.end());
  if (const Status status = data::check_values(fields, values, -1); !status.ok())
    return misuse("writer", "sample ", next, ": ", status.message());
  return label;
}

}  // namespace dlpipe::ingest
