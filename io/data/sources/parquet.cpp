// Parquet and Arrow files, and folders of them: read by the Python package, whose pyarrow knows them. This says so.
#include <filesystem>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

bool has_parquet_name(const std::string& path) {
  const std::string ending = lower_ending(path);
  return ending == "parquet" || ending == "arrow";
}

/// By the first of its files that isn't hidden or a text about it: folders of pictures hold a million files.
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

/// As downloaded from the Hugging Face hub: the files in it, or in data/ or in folders called as splits are. Where other folders
/// or pictures lie beside them, the folder is one of these.
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
                       " is read by the Python package: `pip install pyarrow` beside dlpipe's, then "
                       "`python -m dlpipe ingest ",
                       shell_word(options.path), " DST`, or dlpipe.ingest(SRC, DST) in Python"));
}

}  // namespace

extern const SourceRecord parquet_source;
const SourceRecord parquet_source = {"parquet",
                                     "a .parquet or .arrow file with pictures (Hugging Face's layout), or a "
                                     "folder of them, by `python -m dlpipe ingest`",
                                     recognizes_parquet, open_parquet};

}  // namespace dlpipe::data
