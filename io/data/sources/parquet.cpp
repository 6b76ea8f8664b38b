// Parquet and Arrow files: read by the Python package, whose pyarrow knows them. This says so.
#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

int recognizes_parquet(const SourceOptions& options) {
  const std::string ending = lower_ending(options.path);
  return options.manifest.empty() && (ending == "parquet" || ending == "arrow") ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_parquet(const SourceOptions& options) {
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(options.path),
                       " is read by the Python package: `pip install pyarrow` beside dlpipe's, then "
                       "`python -m dlpipe ingest ",
                       shell_word(options.path), " DST`"));
}

}  // namespace

extern const SourceRecord parquet_source;
const SourceRecord parquet_source = {
    "parquet",
    "a .parquet or .arrow file with pictures (Hugging Face's layout), by `python -m dlpipe ingest`",
    recognizes_parquet, open_parquet};

}  // namespace dlpipe::data
