#include "dlpipe/run/ingest/sample_writer_state.h"

#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::ingest {

using formats::Json;

Status save_state(const SampleWriterState& state, const std::string& file) {
  data::DatasetInfo info;
  info.schema = state.schema;
  info.class_counts.resize(state.schema.classes.size());
  const Json json = Json::object({{"options", state.options},
                                  {"source", state.source},
                                  {"schema", data::to_json(info)},
                                  {"labels", static_cast<int64_t>(state.labels)},
                                  {"splits", Json(Json::Array(state.splits.begin(), state.splits.end()))},
                                  {"total", state.total}});
  return formats::write_file(file, json.dump(2) + "\n");
}

Result<SampleWriterState> load_state(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const Json json, formats::read_json(file));
  SampleWriterState state;
  DLPIPE_ASSIGN_OR_RETURN(state.options, formats::require_string(json, "options", file));
  DLPIPE_ASSIGN_OR_RETURN(state.source, formats::require_string(json, "source", file));
  DLPIPE_ASSIGN_OR_RETURN(const std::string schema, formats::require_string(json, "schema", file));
  DLPIPE_ASSIGN_OR_RETURN(data::DatasetInfo info, data::parse_dataset_info(schema));
  state.schema = std::move(info.schema);
  DLPIPE_ASSIGN_OR_RETURN(const int64_t labels, formats::require_int(json, "labels", file));
  if (labels < 0 || labels > static_cast<int64_t>(Labels::kNumbers))
    return Status(ErrorCode::kCorrupt,
                  concat("[writer] ", file, " is malformed; remove its directory and begin again"));
  state.labels = static_cast<Labels>(labels);
  for (const Json& split : json["splits"].items()) state.splits.push_back(split.as_string());
  DLPIPE_ASSIGN_OR_RETURN(state.total, formats::require_int(json, "total", file));
  return state;
}

std::string fields_text(const std::vector<data::Field>& fields) {
  std::string text;
  for (const data::Field& field : fields) {
    text += concat(text.empty() ? "" : ", ", field.name, " (", data::field_kind_name(field.kind));
    if (field.kind == data::FieldKind::kTensor) text += concat(" ", dtype_name(field.dtype));
    if (field.kind == data::FieldKind::kTensor || field.kind == data::FieldKind::kPoints)
      text += field.shape.to_string();
    if (!field.of.empty()) text += concat(" of ", field.of);
    text += ")";
  }
  return text;
}

}  // namespace dlpipe::ingest
