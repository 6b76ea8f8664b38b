#include "dlpipe/io/data/ragged_field.h"

namespace dlpipe::data {

Result<RaggedField> read_ragged_field(const Dataset& dataset, std::span<const int64_t> samples,
                                      std::string_view name) {
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  RaggedField field;
  field.offsets.reserve(samples.size() + 1);
  field.offsets.push_back(0);
  for (const int64_t sample : samples) {
    if (sample >= 0) {
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader->record(sample));
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, field_bytes(dataset, record, name));
      field.bytes.insert(field.bytes.end(), bytes.begin(), bytes.end());
    }
    field.offsets.push_back(static_cast<int64_t>(field.bytes.size()));
  }
  return field;
}

}  // namespace dlpipe::data
