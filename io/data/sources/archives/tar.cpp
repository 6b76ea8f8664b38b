// A tar archive, as it is or packed (.gz, .zst), or on the standard input: which of the layouts of tar_layout.h its
// files have is decided by their names. A packed one is unpacked once, to a scratch file beside DST.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/archives/tar_file.h"
#include "dlpipe/io/data/sources/archives/tar_layout.h"
#include "dlpipe/io/data/sources/bytes/archive_bytes.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

class TarSource final : public Source {
 public:
  explicit TarSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return archive_->read(entry.place, entry.size_bytes);
  }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override;
  Result<Link> where(const SourceEntry& entry) const override {
    return archive_->where(entry.place, entry.size_bytes);
  }

 private:
  std::string name() const { return options_.path == "-" ? "standard input" : options_.path; }
  Result<SourceListing> list_files(const TarContents& tar) const;
  void note_damage(const TarIndex& index, SourceListing& listing) const;

  SourceOptions options_;
  std::optional<ArchiveBytes> archive_;
};

Result<std::vector<std::byte>> TarSource::read_referred(const SourceEntry&,
                                                        std::string_view reference) const {
  DLPIPE_ASSIGN_OR_RETURN(const Referred file, referred(reference));
  int64_t begin = 0;
  if (!parse_int(file.path, &begin))
    return Status(ErrorCode::kInternal, concat("[ingest] no place in an archive: ", printable(reference)));
  return archive_->read(static_cast<uint64_t>(begin), file.stamp.size_bytes);
}

Result<SourceListing> TarSource::list_files(const TarContents& tar) const {
  const std::vector<TarMember>& members = tar.index.members;
  const auto any = [&](auto is) { return std::any_of(members.begin(), members.end(), is); };
  if (is_webdataset(tar.index)) return list_webdataset(tar);
  if (!options_.fields.empty() && options_.alone)
    return misuse("ingest", "--field does nothing for ", printable(name()),
                  ", whose files are no samples of WebDataset; leave it out");
  const bool has_pictures = any([](const TarMember& one) { return has_image_name(one.name); });
  if (!has_pictures && any([](const TarMember& one) { return has_tar_name(one.name); }))
    return list_class_archives(tar);
  if (!has_pictures) {
    std::map<std::string, int64_t> kinds = tar.index.left_aside;
    for (const TarMember& one : members) {
      const std::string ending = std::filesystem::path(one.name).extension().string();
      ++kinds[ending.empty() ? "no ending" : ending];
    }
    const std::string there = kinds_text(kinds);
    return Status(tar.index.problem.empty() ? ErrorCode::kNotFound : ErrorCode::kCorrupt,
                  concat("[ingest] no picture in ", printable(name()), "; looked for .jpg, .jpeg, .png, ...",
                         there.empty() ? "" : concat(", there is ", there),
                         tar.index.problem.empty() ? "" : concat("; ", tar.index.problem)));
  }
  const bool has_folders = any([](const TarMember& one) {
    return has_image_name(one.name) && one.name.find('/') != std::string::npos;
  });
  return has_folders ? list_class_folders(tar) : list_flat_pictures(tar);
}

// A damaged end is an entry that can't be read: --on-error decides whether what was before it is taken.
void TarSource::note_damage(const TarIndex& index, SourceListing& listing) const {
  if (index.replaced > 0)
    listing.warnings.push_back(concat("[ingest] ", printable(name()), ": ", index.replaced,
                                      " files stand in it twice; the later ones were taken, as tar does"));
  if (index.bytes_behind_end > 0)
    listing.warnings.push_back(concat("[ingest] ", printable(name()), ": ",
                                      human_bytes(index.bytes_behind_end),
                                      " behind the archive's end mark were left aside; archives that were "
                                      "appended to each other have to be given one by one"));
  if (const std::string rest = kinds_text(index.left_aside); !rest.empty())
    listing.warnings.push_back(concat("[ingest] ", printable(name()), ": left aside: ", rest));
  if (index.problem.empty()) return;
  SourceEntry lost;
  lost.path = concat(std::filesystem::path(name()).filename().string(), " (its end)");
  lost.problem = index.problem;
  lost.is_rest = true;
  lost.extra.resize(listing.fields.size());
  if (!listing.entries.empty()) lost.split = listing.entries.front().split;
  listing.entries.push_back(std::move(lost));
}

Result<SourceListing> TarSource::list() {
  const bool is_stream =
      options_.path == "-" || !options_.address.empty();  // it is there once, or fetched once
  if (!archive_ || !is_stream) {
    DLPIPE_ASSIGN_OR_RETURN(archive_, ArchiveBytes::open(options_.path, options_));
  }
  ArchiveBytes::Scan scan = archive_->scan();
  const std::string shown = name();
  ReadBudget budget(options_, shown, archive_->input_bytes());
  DLPIPE_ASSIGN_OR_RETURN(TarIndex index, index_tar(scan, 0, archive_->size_bytes(), budget));
  const TarContents tar{shown, *archive_, options_, std::move(index), budget};
  if (tar.index.members.empty() && !tar.index.problem.empty())
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(shown), ": ", tar.index.problem));
  DLPIPE_ASSIGN_OR_RETURN(SourceListing listing, list_files(tar));
  note_damage(tar.index, listing);
  archive_->drop_kept();
  return listing;
}

int recognizes_tar(const SourceOptions& options) {
  if (!options.manifest.empty()) return 0;
  if (options.path == "-") return 2;
  return has_tar_name(options.path) && !is_folder(options.path) ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_tar(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<TarSource>(options));
}

}  // namespace

extern const SourceRecord tar_source;
const SourceRecord tar_source = {"tar",
                                 "a .tar, .tar.gz or .tar.zst (or - for one on the standard input) with "
                                 "WebDataset samples, class folders or "
                                 "class archives",
                                 recognizes_tar,
                                 open_tar,
                                 "--label --labels --field",
                                 true};

}  // namespace dlpipe::data
