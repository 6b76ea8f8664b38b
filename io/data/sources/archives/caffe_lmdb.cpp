// Caffe's LMDB: a Datum (a protocol buffer) under each key, which holds an encoded image, or planes of blue, green and red as
// OpenCV orders them, and a label. lmdb_file.h reads LMDB's pages and checks them.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/lmdb_file.h"
#include "io/data/schema.h"
#include "io/data/sources/bytes/protobuf_wire.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;

struct Datum {
  uint64_t channels = 0;
  uint64_t height = 0;
  uint64_t width = 0;
  int64_t label = -1;
  bool is_encoded = false;
  bool has_floats = false;
  Bytes data;
};

Result<Datum> parse_datum(Bytes value) {
  Datum datum;
  const ReadAt read = read_memory(value);
  WireCursor cursor(read, 0, value.size());
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<WireField> field, cursor.next());
    if (!field) break;
    if (field->number == 1) datum.channels = field->value;
    if (field->number == 2) datum.height = field->value;
    if (field->number == 3) datum.width = field->value;
    if (field->number == 4 && field->has_bytes) datum.data = value.subspan(field->begin, field->size);
    if (field->number == 5) datum.label = static_cast<int32_t>(field->value);
    datum.has_floats = datum.has_floats || field->number == 6;
    if (field->number == 7) datum.is_encoded = field->value != 0;
  }
  const auto wrong = [](ErrorCode code, std::string_view what) {
    return Status(code, concat("[ingest] unusable Datum: ", what));
  };
  if (datum.has_floats) return wrong(ErrorCode::kUnsupported, "it holds float_data instead of an image");
  if (datum.data.empty()) return wrong(ErrorCode::kCorrupt, "it has no data");
  if (datum.is_encoded) return datum;
  constexpr uint64_t kMostSide = 65'535;
  if ((datum.channels != 1 && datum.channels != 3) || datum.height - 1 >= kMostSide ||
      datum.width - 1 >= kMostSide)
    return wrong(ErrorCode::kUnsupported, concat("it is ", datum.channels, "x", datum.height, "x",
                                                 datum.width, "; it must have 1 or 3 channels"));
  if (datum.data.size() != datum.channels * datum.height * datum.width)
    return wrong(ErrorCode::kCorrupt, "the size of its data does not match its width and height");
  return datum;
}

class CaffeLmdbSource final : public Source {
 public:
  explicit CaffeLmdbSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  SourceOptions options_;
  std::unique_ptr<const LmdbFile> file_;
  std::vector<Bytes> values_;  // in the map
};

/// Whether it is a dataset of dlpipe's.
Result<bool> is_dataset(const LmdbFile& file) {
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<LmdbFile::Tree> own, file.tree(kMetaDb));
  return own.has_value();
}

Result<SourceListing> CaffeLmdbSource::list() {
  values_.clear();
  DLPIPE_ASSIGN_OR_RETURN(file_, LmdbFile::open(options_.path));
  DLPIPE_ASSIGN_OR_RETURN(const bool is_own, is_dataset(*file_));
  if (is_own)
    return misuse("ingest", printable(options_.path), " is already a dlpipe dataset; `dlpipe export ",
                  shell_word(options_.path), " FOLDER` writes its files");
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(options_.path + "/data.mdb"));
  SourceListing listing;
  std::vector<std::string> class_of_entry;
  const auto add = [&](Bytes key, Bytes value) -> Status {
    SourceEntry entry;
    entry.path.assign(reinterpret_cast<const char*>(key.data()), key.size());
    entry.modified_ns = stamp.modified_ns;
    entry.size_bytes = value.size();
    entry.place = values_.size();
    const auto datum = parse_datum(value);
    if (!datum.ok()) entry.problem = without_area(datum.status().message());
    class_of_entry.push_back(datum.ok() && datum->label >= 0 ? std::to_string(datum->label) : "");
    if (datum.ok() && datum->label < 0) entry.problem = "its Datum has no label";
    values_.push_back(value);
    listing.entries.push_back(std::move(entry));
    return {};
  };
  DLPIPE_RETURN_IF_ERROR(file_->walk(file_->main_tree(), add));
  if (listing.entries.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(options_.path), " holds no records"));
  number_classes(class_of_entry, listing);
  if (listing.classes.empty())
    return Status(ErrorCode::kUnsupported, concat("[ingest] ", printable(options_.path),
                                                  " has no labelled Datum of "
                                                  "Caffe; the first record: ",
                                                  listing.entries[0].problem));
  if (options_.alone) warn_of_classes(listing);
  return listing;
}

Result<std::vector<std::byte>> CaffeLmdbSource::read(const SourceEntry& entry) const {
  DLPIPE_ASSIGN_OR_RETURN(const Datum datum, parse_datum(values_[entry.place]));
  if (datum.is_encoded) return std::vector<std::byte>(datum.data.begin(), datum.data.end());
  const size_t plane = datum.height * datum.width;
  std::vector<uint8_t> pixels(datum.data.size());
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = 0; c < datum.channels; ++c)
      pixels[datum.channels * i + c] = static_cast<uint8_t>(datum.data[(datum.channels - 1 - c) * plane + i]);
  }
  const auto width = static_cast<int>(datum.width);
  const auto channels = static_cast<int>(datum.channels);
  return encode_raw(
      {pixels.data(), width, static_cast<int>(datum.height), channels, ptrdiff_t{width} * channels});
}

bool is_database(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / "data.mdb", ignored);
}

/// The folders in `folder` if all of them are databases; else none.
std::vector<std::string> databases_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error); !error && it != decltype(it)();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || !it->is_directory(ignored)) continue;
    if (!is_database(it->path())) return {};
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

int recognizes_caffe_lmdb(const SourceOptions& options) {
  if (!options.manifest.empty()) return 0;
  return is_database(options.path) || !databases_in(options.path).empty() ? 2 : 0;
}

Status refuse_several(const std::string& folder) {
  const std::vector<std::string> names = databases_in(folder);
  DLPIPE_ASSIGN_OR_RETURN(const auto first, LmdbFile::open(concat(folder, "/", names.front())));
  DLPIPE_ASSIGN_OR_RETURN(const bool is_own, is_dataset(*first));
  if (is_own) {
    return misuse("ingest", printable(folder),
                  " is a folder of dlpipe datasets, not raw data; `dlpipe export ", shell_word(folder),
                  " FOLDER` writes their files");
  }
  std::string all;
  for (const std::string& name : names) all += concat(shell_word(concat(folder, "/", name)), " ");
  return misuse("ingest", printable(folder), " contains the LMDBs ", quoted_names(names),
                "; name them: dlpipe ingest ", all, "DST");
}

Result<std::unique_ptr<Source>> open_caffe_lmdb(const SourceOptions& options) {
  if (!is_database(options.path)) return refuse_several(options.path);
  return std::unique_ptr<Source>(std::make_unique<CaffeLmdbSource>(options));
}

}  // namespace

extern const SourceRecord caffe_lmdb_source;
const SourceRecord caffe_lmdb_source = {"caffe_lmdb",
                                        "the folder of a Caffe LMDB: Datum records, encoded or raw",
                                        recognizes_caffe_lmdb, open_caffe_lmdb};

}  // namespace dlpipe::data
