#include "dlpipe/io/data/sources/annotations/image_sets.h"

#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

Result<ImageSets> read_image_sets(const std::filesystem::path& root, std::string_view kind) {
  const std::filesystem::path lists = root / "ImageSets" / kind;
  ImageSets splits;
  std::error_code ignored;
  const auto take = [&](const char* list, const char* split) -> Status {
    if (!std::filesystem::is_regular_file(lists / list, ignored)) return {};
    DLPIPE_ASSIGN_OR_RETURN(splits[split], lines_in_file((lists / list).string()));
    return {};
  };
  DLPIPE_RETURN_IF_ERROR(take("train.txt", "train"));
  DLPIPE_RETURN_IF_ERROR(take("val.txt", "val"));
  DLPIPE_RETURN_IF_ERROR(take("test.txt", "test"));
  if (!splits.contains("train")) DLPIPE_RETURN_IF_ERROR(take("trainval.txt", "train"));
  std::erase_if(splits, [](const auto& split) { return split.second.empty(); });
  return splits;
}

}  // namespace dlpipe::data
