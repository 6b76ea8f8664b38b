#include "dlpipe/run/train/loop/checkpoint_parts.h"

#include <string>

#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::run {

using formats::Json;

namespace {

Json told(const Status& status) {
  return Json::object({{"code", static_cast<int64_t>(status.code())}, {"error", status.message()}});
}

}  // namespace

Result<FileDescriptions> write_optimizer_parts(engine::Collective& ranks,
                                               const Result<std::string>& directory,
                                               const std::vector<engine::NamedTensor>& own) {
  const bool is_first = ranks.rank() == 0;
  DLPIPE_ASSIGN_OR_RETURN(
      const std::vector<std::string> directories,
      ranks.gather(is_first && directory.ok() ? *directory : "", "a checkpoint's directory"));
  if (directories.front().empty()) {
    if (is_first) return directory.status();
    return Status(ErrorCode::kIo, "[checkpoint] rank 0 could not make the checkpoint's directory");
  }
  const Result<Json> written = write_optimizer_part(directories.front(), ranks.rank(), ranks.world(), own);
  const Json mine =
      written.ok() ? Json::object({{"code", int64_t{0}}, {"files", *written}}) : told(written.status());
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          ranks.gather(mine.dump(), "all parts of a checkpoint"));
  Json files = Json::object();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    DLPIPE_ASSIGN_OR_RETURN(const Json its, Json::parse(texts[rank]));
    const auto code = static_cast<ErrorCode>(its["code"].as_int());
    if (code != ErrorCode::kOk)
      return Status(
          code, concat("[checkpoint] rank ", rank, " could not write its part: ", its["error"].as_string()));
    for (const auto& [name, description] : its["files"].members()) files.set(name, description);
  }
  return files;
}

}  // namespace dlpipe::run
