#include "dlpipe/io/data/sources/image_sets.h"

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

static Result<std::vector<std::string>> lines_of(const std::filesystem::path& file) {
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(file.string()));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(file.string(), stamp));
  std::vector<std::string> names;
  for (const std::string& line : split({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, '\n')) {
    if (!trim(line).empty()) names.emplace_back(trim(line));
  }
  return names;
}

Result<ImageSets> read_image_sets(const std::filesystem::path& root, std::string_view kind) {
  const std::filesystem::path lists = root / "ImageSets" / kind;
  ImageSets splits;
  std::error_code ignored;
  const auto take = [&](const char* list, const char* split) -> Status {
    if (!std::filesystem::is_regular_file(lists / list, ignored)) return {};
    DLPIPE_ASSIGN_OR_RETURN(splits[split], lines_of(lists / list));
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
