// CIFAR-10 and CIFAR-100 as published in binary: records of 3073 or 3074 bytes, the label (CIFAR-100: superclass and
// class) and 32 x 32 pixels, red, green and blue one after another. SRC is the folder, or one of its files. The
// published halves become the splits train and val. The pickled version for Python is a row of layouts.cpp.
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/sources/bytes/archive_bytes.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr size_t kPlane = size_t{kSide} * kSide;

constexpr const char* kSuperclass = "superclass";  // CIFAR-100's second label

/// One of the two datasets, by the names of its files.
struct Kind {
  std::string_view name;
  size_t labels;  // bytes before the pixels; the last is the class
  std::vector<std::string_view> train;
  std::string_view test;
  std::string_view classes;       // file with a name per line
  std::string_view superclasses;  // empty: none
};

const std::array<Kind, 2>& kinds() {
  static const std::array<Kind, 2> kKinds = {{
      {"CIFAR-10",
       1,
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       "test_batch.bin",
       "batches.meta.txt",
       ""},
      {"CIFAR-100", 2, {"train.bin"}, "test.bin", "fine_label_names.txt", "coarse_label_names.txt"},
  }};
  return kKinds;
}

const Kind* kind_of_folder(const fs::path& folder) {
  for (const Kind& kind : kinds()) {
    const bool has_data = is_there(folder / kind.test) ||
                          std::any_of(kind.train.begin(), kind.train.end(),
                                      [&](std::string_view name) { return is_there(folder / name); });
    if (has_data && (kind.labels == 1 || is_there(folder / kind.classes))) return &kind;
  }
  return nullptr;
}

const Kind* kind_of_file(const fs::path& file) {
  const std::string name = file.filename().string();
  for (const Kind& kind : kinds()) {
    const bool is_its =
        name == kind.test || std::find(kind.train.begin(), kind.train.end(), name) != kind.train.end();
    if (is_its && (kind.labels == 1 || is_there(file.parent_path() / kind.classes))) return &kind;
  }
  return nullptr;
}

std::string split_of_file(const std::string& path) {
  const Kind* const kind = kind_of_file(path);
  if (kind == nullptr) return {};
  return fs::path(path).filename() == kind->test ? "val" : "train";
}

class CifarSource final : public Source {
 public:
  explicit CifarSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  static constexpr int kFileShift = 40;  // entry.place = file << 40 | record
  struct File {
    std::string name;
    std::string split;
    ArchiveBytes bytes;
  };
  Status open_files(const fs::path& folder);
  Status add_file(size_t number, SourceListing& listing);
  Result<std::vector<std::string>> classes_of(const fs::path& folder, std::string_view file,
                                              size_t most) const;
  size_t record_bytes() const { return kind_->labels + 3 * kPlane; }

  SourceOptions options_;
  const Kind* kind_ = nullptr;
  std::vector<File> files_;
  std::vector<std::string> superclasses_;
  bool by_superclass_ = false;
};

Status CifarSource::open_files(const fs::path& folder) {
  files_.clear();
  const bool alone = !is_folder(options_.path);
  const auto add = [&](std::string_view name, std::string_view split) -> Status {
    if (alone ? fs::path(options_.path).filename() != name : !is_there(folder / name)) return {};
    DLPIPE_ASSIGN_OR_RETURN(ArchiveBytes bytes, ArchiveBytes::open((folder / name).string(), options_));
    files_.push_back(
        {std::string(name), alone || !options_.splits ? "" : std::string(split), std::move(bytes)});
    return {};
  };
  for (const std::string_view name : kind_->train) DLPIPE_RETURN_IF_ERROR(add(name, "train"));
  const size_t train = files_.size();
  DLPIPE_RETURN_IF_ERROR(add(kind_->test, "val"));
  if (train == 0 || train == files_.size()) {  // one half alone makes no splits
    for (File& file : files_) file.split.clear();
  }
  return {};
}

Result<std::vector<std::string>> CifarSource::classes_of(const fs::path& folder, std::string_view file,
                                                         size_t most) const {
  std::vector<std::string> names;
  if (is_there(folder / file)) {
    DLPIPE_ASSIGN_OR_RETURN(names, lines_in_file((folder / file).string()));
  } else {
    for (size_t i = 0; i < most; ++i) names.push_back(std::to_string(i));
  }
  if (names.size() == most) return names;
  return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable((folder / file).string()), " names ",
                                            counted(static_cast<int64_t>(names.size()), "class", "classes"),
                                            ", but ", kind_->name, " has ", most, "; download it again"));
}

Status CifarSource::add_file(size_t number, SourceListing& listing) {
  const File& file = files_[number];
  const uint64_t size = file.bytes.size_bytes();
  if (size == 0 || size % record_bytes() != 0)
    return Status(
        ErrorCode::kCorrupt,
        concat("[ingest] ", printable(file.name), " has ", size, " bytes, which is not a multiple of ",
               record_bytes(), "; it is truncated or not ", kind_->name, " in binary: download it again"));
  const std::string stem = fs::path(file.name).stem().string();
  std::vector<std::byte> labels(2);
  ArchiveBytes::Scan scan = file.bytes.scan();
  for (uint64_t i = 0; i < size / record_bytes(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const size_t count,
                            scan.read(i * record_bytes(), std::span(labels).first(kind_->labels)));
    if (count < kind_->labels)
      return Status(ErrorCode::kIo, concat("[ingest] ", printable(file.name), " shrank; download it again"));
    SourceEntry entry;
    entry.path = numbered_path(stem, i, 5);
    entry.size_bytes = kRawHeaderBytes + 3 * kPlane;
    entry.modified_ns = file.bytes.modified_ns();
    entry.split = file.split;
    entry.place = (static_cast<uint64_t>(number) << kFileShift) | i;
    entry.label = load_u8(labels, by_superclass_ ? 0 : kind_->labels - 1);
    if (entry.label >= static_cast<int64_t>(listing.classes.size())) {
      entry.problem = concat("its label is ", entry.label, " of ", listing.classes.size(), " classes");
      entry.label = -1;
    }
    if (!listing.fields.empty()) {
      const size_t superclass = load_u8(labels, 0);
      if (superclass >= superclasses_.size()) entry.problem = concat("its superclass is ", superclass);
      entry.extra.push_back(superclass < superclasses_.size() ? superclasses_[superclass] : "");
    }
    listing.entries.push_back(std::move(entry));
  }
  return {};
}

Result<SourceListing> CifarSource::list() {
  const bool in_folder = is_folder(options_.path);
  const fs::path folder = in_folder ? fs::path(options_.path) : fs::path(options_.path).parent_path();
  kind_ = in_folder ? kind_of_folder(folder) : kind_of_file(options_.path);
  if (kind_ == nullptr) return changed_since_listed(options_.path, "changed");
  const bool is_100 = kind_->labels == 2;
  by_superclass_ = is_100 && options_.label == kSuperclass;
  if (!options_.label.empty() && !by_superclass_)
    return misuse(
        "ingest", "--label ", printable(options_.label), ": ", printable(options_.path), " is ", kind_->name,
        is_100 ? concat(", whose other label is called ", kSuperclass, "; use that, or leave --label out")
               : std::string(", which has one label; leave --label out"));
  DLPIPE_RETURN_IF_ERROR(open_files(folder));
  SourceListing listing;
  if (is_100) {
    DLPIPE_ASSIGN_OR_RETURN(superclasses_, classes_of(folder, kind_->superclasses, 20));
    if (!by_superclass_) listing.fields = {text_field(kSuperclass)};
  }
  if (by_superclass_) {
    listing.classes = superclasses_;
  } else {
    DLPIPE_ASSIGN_OR_RETURN(listing.classes, classes_of(folder, kind_->classes, is_100 ? 100 : 10));
  }
  listing.has_class_order = true;
  for (size_t i = 0; i < files_.size(); ++i) DLPIPE_RETURN_IF_ERROR(add_file(i, listing));
  if (in_folder && !is_100 && files_.size() != 6)
    listing.warnings.push_back(concat("[ingest] ", printable(options_.path), " holds ", files_.size(),
                                      " of the 6 files of ", kind_->name));
  return listing;
}

Result<std::vector<std::byte>> CifarSource::read(const SourceEntry& entry) const {
  const File& file = files_[entry.place >> kFileShift];
  const uint64_t record = entry.place & ((uint64_t{1} << kFileShift) - 1);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> planes,
                          file.bytes.read(record * record_bytes() + kind_->labels, 3 * kPlane));
  std::vector<uint8_t> pixels(3 * kPlane);
  for (size_t i = 0; i < kPlane; ++i) {
    for (size_t c = 0; c < 3; ++c) pixels[3 * i + c] = load_u8(planes, c * kPlane + i);
  }
  return encode_raw({pixels.data(), kSide, kSide, 3, ptrdiff_t{3} * kSide});
}

int recognizes_cifar(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-") return 0;
  const bool is_binary = is_folder(options.path) ? kind_of_folder(options.path) != nullptr
                                                 : kind_of_file(options.path) != nullptr;
  return is_binary ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_cifar(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<CifarSource>(options));
}

}  // namespace

extern const SourceRecord cifar_source;
const SourceRecord cifar_source = {
    "cifar",
    "the folder of CIFAR-10 or CIFAR-100 in binary (data_batch_1.bin, ...), or one of "
    "its files; --label superclass uses CIFAR-100's 20",
    recognizes_cifar,
    open_cifar,
    "--label",
    false,
    split_of_file};

}  // namespace dlpipe::data
