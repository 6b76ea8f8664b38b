// IDX files, as MNIST and similar datasets are published: an images file [N,H,W] or [N,H,W,C] of bytes and a labels file [N],
// each plain or gzipped. SRC is the images file, or a folder with one pair, or with a train and a t10k (or test) pair, which
// become the splits train and val. Images become raw pixels.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/sources/bytes/unpack.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

/// Fills `out` with the stream's first bytes; kCorrupt when it has fewer. With `whole`, also when it has more. If the stream
/// ends early, memory that was not written yet stays untouched.
Status gunzip(std::span<const std::byte> bytes, std::span<std::byte> out, bool whole,
              const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(Inflater inflater, Inflater::begin(Inflater::Form::kGzip));
  std::byte one_too_many{};  // space for it detects an overlong stream, and lets a correct one reach its end
  const size_t room = out.size() + (whole ? 1 : 0);
  size_t done = 0;
  bool is_end = false;
  while (!is_end && done < room) {
    const size_t left = bytes.size();
    const auto step =
        inflater.step(bytes, done < out.size() ? out.subspan(done) : std::span(&one_too_many, 1));
    if (!step.ok())
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] ", name, ": corrupt gzip stream: ", step.status().message()));
    done += step->made;
    is_end = step->is_end;
    if (step->made == 0 && bytes.size() == left) break;
  }
  const bool complete = !whole || (is_end && bytes.empty());
  if (done == out.size() && complete) return {};
  return Status(ErrorCode::kCorrupt,
                concat("[ingest] ", name, " holds ",
                       done > out.size()   ? "more than the "
                       : done < out.size() ? "less than the "
                                           : "data after the ",
                       out.size(), " bytes that its header declares; download it again"));
}

struct IdxArray {
  std::vector<size_t> dims;
  std::vector<std::byte> file;         // the bytes on disk
  std::unique_ptr<std::byte[]> whole;  // decompressed; null if the file is not gzipped
  uint64_t size = 0;                   // of the decompressed file
  size_t header_bytes = 0;
  bool is_gzip = false;
  FileStamp stamp;
  std::span<const std::byte> items() const {
    const std::span<const std::byte> all = whole != nullptr ? std::span(whole.get(), size) : std::span(file);
    return all.subspan(header_bytes);
  }
};

Status wrong(const std::string& file, std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[ingest] ", file, ": ", what, "; download it again"));
}

Status check_memory(const std::string& file, std::string_view what, uint64_t bytes) {
  if (bytes <= available_memory_bytes()) return {};
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", file, ": ", what, " ", human_bytes(bytes), ", but this machine has ",
                       human_bytes(available_memory_bytes()), "; split the file"));
}

/// The file's first bytes: enough for a header, gzipped or not.
Result<std::vector<std::byte>> read_begin(const std::string& file, FileStamp* stamp) {
  constexpr uint64_t kMost = 1 << 16;
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile opened, RegularFile::open("ingest", file));
  *stamp = opened.stamp();
  std::vector<std::byte> bytes(std::min(kMost, stamp->size_bytes));
  const ssize_t got = ::pread(opened.fd(), bytes.data(), bytes.size(), 0);
  if (got < 0) return status_from_errno("ingest", concat("cannot read ", printable(file)), errno);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

// "\0\0", a type byte (8: unsigned bytes), the number of dimensions, and each as a big-endian u32. Nothing more is read from
// the file.
Result<IdxArray> read_header(const std::string& file) {
  IdxArray array;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> begin, read_begin(file, &array.stamp));
  array.is_gzip = is_gzip(begin);
  const auto head = [&](size_t size) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes(size);
    if (array.is_gzip) {
      DLPIPE_RETURN_IF_ERROR(gunzip(begin, bytes, false, file));
      return bytes;
    }
    if (begin.size() < size) return wrong(file, "it is too short for an IDX file");
    std::copy_n(begin.begin(), size, bytes.begin());
    return bytes;
  };
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> magic, head(4));
  const size_t rank = load_u8(magic, 3);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || load_u8(magic, 2) != 8 || rank < 1 || rank > 4)
    return wrong(file, "it is not an IDX file of bytes with 1 to 4 dimensions");
  array.header_bytes = 4 + 4 * rank;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> header, head(array.header_bytes));
  array.size = 1;
  for (size_t i = 0; i < rank; ++i) {
    array.dims.push_back(load_be32(header, 4 + 4 * i));
    constexpr uint64_t kMost = uint64_t{1} << 40;
    if (array.dims.back() == 0 || array.size > kMost / array.dims.back())
      return wrong(file, "its header gives an invalid size");
    array.size *= array.dims.back();
  }
  array.size += array.header_bytes;
  // Deflate shrinks at most 1032 : 1, so a header that declares more is corrupt. It never makes data larger by 1 % plus a
  // megabyte.
  const uint64_t file_bytes = array.stamp.size_bytes;
  if (array.is_gzip && array.size / 1032 > file_bytes)
    return wrong(file, "its header declares more than the file can hold");
  if (array.is_gzip ? file_bytes > array.size + array.size / 100 + (1 << 20) : file_bytes != array.size)
    return wrong(file, concat("it has ", file_bytes, " bytes, but its header declares ", array.size));
  return array;
}

Status read_items(const std::string& file, IdxArray& array) {
  DLPIPE_RETURN_IF_ERROR(
      check_memory(file, array.is_gzip ? "decompressed it needs" : "it needs", array.size));
  DLPIPE_ASSIGN_OR_RETURN(array.file, read_stamped_file(file, array.stamp, array.stamp.size_bytes));
  if (!array.is_gzip) return {};
  array.whole =
      std::make_unique_for_overwrite<std::byte[]>(array.size);  // untouched until there are bytes for it
  DLPIPE_RETURN_IF_ERROR(gunzip(array.file, {array.whole.get(), array.size}, true, file));
  array.file = std::vector<std::byte>();
  return {};
}

struct Pair {
  std::string images_file;
  std::string labels_file;
  std::string prefix;  // "train", "t10k"
  IdxArray images;
  IdxArray labels;
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (const size_t at = text.rfind(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// -idx3-ubyte, .idx3-ubyte, .idx: other names that contain these letters (train_idx.csv) belong to other sources.
bool is_idx_name(std::string name) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  constexpr std::string_view kWord = "idx";
  const size_t at = name.rfind(kWord);
  if (at == std::string::npos || name.front() == '.') return false;
  const std::string before = name.substr(0, at);
  const std::string after = name.substr(at + kWord.size());
  return (before.empty() || std::ispunct(static_cast<unsigned char>(before.back())) != 0) &&
         (after.empty() || std::isdigit(static_cast<unsigned char>(after.front())) != 0);
}

bool is_images_name(const std::string& name) {
  return name.find("images") != std::string::npos && is_idx_name(name);
}

/// Sorted. A file that was unpacked next to its archive counts once. Folders don't count: Kaggle's MNIST has such names, too.
std::vector<std::string> images_files_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (is_images_name(entry.path().filename().string()) && !entry.is_directory(ignored))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  const std::vector<std::string> all = files;
  std::erase_if(files, [&](const std::string& file) {
    return file.ends_with(".gz") &&
           std::binary_search(all.begin(), all.end(), file.substr(0, file.size() - 3));
  });
  return files;
}

class IdxSource final : public Source {
 public:
  explicit IdxSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  static constexpr int kPairShift = 40;  // entry.place = pair << 40 | item
  Status find_pairs();
  Status load(Pair& pair);

  SourceOptions options_;
  std::vector<Pair> pairs_;
};

Status IdxSource::find_pairs() {
  pairs_.clear();
  std::vector<std::string> files;
  std::error_code error;
  if (is_folder(options_.path)) {
    files = images_files_in(options_.path, error);
    if (error) return status_from_errno("ingest", concat("cannot list ", options_.path), error.value());
  } else {
    files.push_back(options_.path);
  }
  for (const std::string& file : files) {
    const std::string name = fs::path(file).filename().string();
    if (!is_images_name(name))
      return misuse("ingest", file, " is not the images file of an IDX pair; ",
                    "give the file named ...images-idx3-ubyte");
    Pair pair;
    pair.images_file = file;
    const std::string labels =
        (fs::path(file).parent_path() /
         replaced(replaced(replaced(name, "images", "labels"), "idx3", "idx1"), "idx4", "idx1"))
            .string();
    const std::string other = labels.size() > 3 && labels.substr(labels.size() - 3) == ".gz"
                                  ? labels.substr(0, labels.size() - 3)
                                  : labels + ".gz";
    pair.labels_file = is_there(labels) ? labels : other;
    if (!is_there(pair.labels_file))
      return Status(ErrorCode::kNotFound,
                    concat("[ingest] ", file, " has no labels next to it; looked for ", labels));
    pair.prefix = name.substr(0, name.find("images"));
    while (!pair.prefix.empty() &&
           (pair.prefix.back() == '-' || pair.prefix.back() == '.' || pair.prefix.back() == '_'))
      pair.prefix.pop_back();
    if (pair.prefix.empty()) pair.prefix = "images";
    pairs_.push_back(std::move(pair));
  }
  return {};
}

Status IdxSource::load(Pair& pair) {
  DLPIPE_ASSIGN_OR_RETURN(pair.images, read_header(pair.images_file));
  DLPIPE_ASSIGN_OR_RETURN(pair.labels, read_header(pair.labels_file));
  const std::vector<size_t>& dims = pair.images.dims;
  const bool images = dims.size() >= 3 && dims[1] <= 65'535 && dims[2] <= 65'535 &&
                      (dims.size() == 3 || dims[3] == 1 || dims[3] == 3);
  if (!images) return wrong(pair.images_file, "it does not hold images of [N,H,W] or [N,H,W,1 or 3]");
  if (pair.labels.dims.size() != 1) return wrong(pair.labels_file, "it does not hold labels of [N]");
  if (pair.labels.dims[0] != dims[0])
    return wrong(pair.labels_file, concat(counted(static_cast<int64_t>(pair.labels.dims[0]), "label"),
                                          " for ", counted(static_cast<int64_t>(dims[0]), "image")));
  ReadBudget budget(options_, pair.images_file, pair.images.stamp.size_bytes + pair.labels.stamp.size_bytes);
  DLPIPE_RETURN_IF_ERROR(budget.take_entries(dims[0], 1));
  for (const IdxArray* array : {&pair.images, &pair.labels}) {
    if (array->is_gzip) DLPIPE_RETURN_IF_ERROR(budget.take(array->size, 1, "what it decompresses to"));
  }
  DLPIPE_RETURN_IF_ERROR(read_items(pair.labels_file, pair.labels));
  return read_items(pair.images_file, pair.images);
}

// train and t10k or test: the published halves. Anything else must be one pair.
std::string half_of(const std::string& name) {
  if (name.find("train") != std::string::npos) return "train";
  return name.find("t10k") != std::string::npos || name.find("test") != std::string::npos ? "val" : "";
}

std::string split_of(const Pair& pair, size_t pairs) {
  return pairs == 2 ? half_of(pair.prefix) : std::string();
}

std::string split_of_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return is_images_name(name) ? half_of(name.substr(0, name.find("images"))) : std::string();
}

Result<SourceListing> IdxSource::list() {
  DLPIPE_RETURN_IF_ERROR(find_pairs());
  const bool halves = pairs_.size() == 2 && split_of(pairs_[0], 2) != split_of(pairs_[1], 2) &&
                      !split_of(pairs_[0], 2).empty() && !split_of(pairs_[1], 2).empty();
  if (pairs_.size() > 1 && !halves)
    return misuse("ingest", options_.path, " holds ", pairs_.size(),
                  " IDX image files that are not a train and test pair; name one, such as ",
                  pairs_[0].images_file);
  SourceListing listing;
  std::vector<std::string> class_of_entry;
  for (size_t p = 0; p < pairs_.size(); ++p) {
    Pair& pair = pairs_[p];
    DLPIPE_RETURN_IF_ERROR(load(pair));
    const size_t count = pair.images.dims[0];
    for (size_t i = 0; i < count; ++i) {
      SourceEntry entry;
      entry.path = numbered_path(pair.prefix, i, 6);
      entry.size_bytes = kRawHeaderBytes + pair.images.items().size() / count;
      entry.modified_ns = pair.images.stamp.modified_ns;
      if (options_.splits) entry.split = split_of(pair, pairs_.size());
      entry.place = (static_cast<uint64_t>(p) << kPairShift) | i;
      listing.entries.push_back(std::move(entry));
      class_of_entry.push_back(std::to_string(load_u8(pair.labels.items(), i)));
    }
  }
  number_classes(class_of_entry, listing);
  return listing;
}

Result<std::vector<std::byte>> IdxSource::read(const SourceEntry& entry) const {
  const Pair& pair = pairs_[entry.place >> kPairShift];
  const size_t item = entry.place & ((uint64_t{1} << kPairShift) - 1);
  const std::vector<size_t>& dims = pair.images.dims;
  const int height = static_cast<int>(dims[1]);
  const int width = static_cast<int>(dims[2]);
  const int channels = dims.size() == 4 ? static_cast<int>(dims[3]) : 1;
  const size_t bytes = pair.images.items().size() / dims[0];
  const auto* pixels = reinterpret_cast<const uint8_t*>(pair.images.items().data()) + item * bytes;
  return encode_raw({pixels, width, height, channels, ptrdiff_t{width} * channels});
}

int recognizes_idx(const SourceOptions& options) {
  if (!options.manifest.empty()) return 0;
  if (!is_folder(options.path)) return is_idx_name(fs::path(options.path).filename().string()) ? 1 : 0;
  std::error_code ignored;
  return images_files_in(options.path, ignored).empty() ? 0 : 2;
}

Result<std::unique_ptr<Source>> open_idx(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<IdxSource>(options));
}

}  // namespace

extern const SourceRecord idx_source;
const SourceRecord idx_source = {
    "idx",
    "an IDX images file (...images-idx3-ubyte, .gz too) with its labels next to it, or a folder of them",
    recognizes_idx,
    open_idx,
    "",
    false,
    split_of_file};

}  // namespace dlpipe::data
