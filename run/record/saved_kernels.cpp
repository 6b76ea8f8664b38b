#include "dlpipe/run/record/saved_kernels.h"

#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/checkpoint.h"

namespace dlpipe::run {

using formats::Json;

Status save_kernels(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(Json json, Json::parse(engine::kernel_table().save()));
  return formats::write_json(file, with_checksum(std::move(json)));
}

Status load_kernels(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const Json json, formats::read_json(file));
  DLPIPE_RETURN_IF_ERROR(check_checksum(
      json, file,
      "without it kernels are chosen anew, which may change the last bits: remove it to accept that"));
  return engine::kernel_table().load(json.dump());
}

}  // namespace dlpipe::run
