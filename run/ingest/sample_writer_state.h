// What an interrupted SampleWriter must find again beside its environments: DST.partial/ingest.list, rewritten before each
// commit that needs it. Value types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::ingest {

/// How labels become numbers. The values stand in files.
enum class Labels : uint8_t { kUnknown, kFixed, kNames, kNumbers };

struct SampleWriterState {
  std::string options;  // canonical_options
  std::string source;
  data::Schema schema;  // with the classes so far; records_per_value 0: not decided yet
  Labels labels = Labels::kUnknown;
  std::vector<std::string> splits;  // that samples were written to, in the order in which they came
  int64_t total = -1;               // of all samples; -1: finish() was not called

  friend bool operator==(const SampleWriterState& a, const SampleWriterState& b) {
    return a.options == b.options && a.schema.classes == b.schema.classes && a.labels == b.labels &&
           a.schema.records_per_value == b.schema.records_per_value && a.splits == b.splits &&
           a.total == b.total;
  }
};

Status save_state(const SampleWriterState& state, const std::string& file);
/// kCorrupt when it isn't whole.
Result<SampleWriterState> load_state(const std::string& file);
/// "image, label, path" and the kinds: what two schemas are compared by and what messages show.
std::string fields_text(const std::vector<data::Field>& fields);

}  // namespace dlpipe::ingest
