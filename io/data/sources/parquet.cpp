// Parquet and Arrow files, and folders of them: read by the Python package, with pyarrow. This source only reports that.
#include <filesystem>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

bool has_parquet_name(const std::string& path) {
  const std::string ending = lower_ending(path);
  return ending == "parquet" || ending == "arrow";
}

/// Judged by the first file that is neither hidden nor a text about the folder: folders of images may hold a million files.
bool holds_parquet(const std::filesystem::path& folder) {
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error); !error && it != decltype(it)();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::string ending = lower_ending(name);
    std::error_code ignored;
    if (name[0] == '.' || ending == "md" || ending == "json" || it->is_directory(ignored)) continue;
    return has_parquet_name(name);
  }
  return false;
}

/// A folder as downloaded from the Hugging Face hub: the files in it, or in data/ or in folders named like splits. If there are
/// other folders or images next to them, the folder is treated as those.
bool is_folder_of_parquet(const std::string& path) {
  bool found = false;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(path, error); !error && it != decltype(it)();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (!it->is_directory(ignored)) {
      if (has_image_name(name)) return false;
      found = found || has_parquet_name(name);
    } else if (name == "data" || !split_of_name(name).empty()) {
      found = found || holds_parquet(it->path());
    } else {
      return false;
    }
  }
  return found;
}

int recognizes_parquet(const SourceOptions& options) {
  if (!options.manifest.empty()) return 0;
  if (is_folder(options.path)) return is_folder_of_parquet(options.path) ? 2 : 0;
  return has_parquet_name(options.path) ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_parquet(const SourceOptions& options) {
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(options.path),
                       " is read by the Python package: `pip install pyarrow` in the same environment, then "
                       "`python -m dlpipe ingest ",
                       shell_word(options.path), " DST`, or dlpipe.ingest(SRC, DST) in Python"));
}

}  // namespace

extern const SourceRecord parquet_source;
const SourceRecord parquet_source = {"parquet",
                                     "a .parquet or .arrow file with images (Hugging Face's layout), or a "
                                     "folder of them, by `python -m dlpipe ingest`",
                                     recognizes_parquet, open_parquet};

}  // namespace dlpipe::data
