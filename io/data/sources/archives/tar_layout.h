// What the files of a tar archive are to a data set: samples of WebDataset, pictures in class folders, class archives in
// an archive, or pictures whose classes a list names. For tar.cpp; pure functions of an index and, for small texts, of
// the archive's bytes.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/archives/tar_file.h"
#include "dlpipe/io/data/sources/bytes/archive_bytes.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

struct TarContents {
  const std::string& name;  // of the archive, for messages
  const ArchiveBytes& archive;
  const SourceOptions& options;
  TarIndex index;
  ReadBudget& budget;  // of what is listed
};

/// An entry that is read at the member's place.
SourceEntry entry_of(const TarMember& member, const ArchiveBytes& archive);

/// The bytes of a member that goes with an entry, as Source::read_referred() takes them.
std::string refer_to_member(const TarMember& member, const ArchiveBytes& archive);

/// Whether files share a key as those of samples do: a picture and a .cls, .txt or .json, a picture and its mask
/// (webdataset_samples.h).
bool is_webdataset(const TarIndex& index);
/// Samples by key: 0001.jpg with 0001.cls, 0001.json, 0001.txt; 0001.image.png with 0001.target.cls, 0001.mask.png. The class
/// is that of .cls, or of the JSON's label.
Result<SourceListing> list_webdataset(const TarContents& tar);
/// CLASS/.../PICTURE, with or without train, val and test above, as a folder of these.
Result<SourceListing> list_class_folders(const TarContents& tar);
/// CLASS.tar, each with pictures: the published ImageNet.
Result<SourceListing> list_class_archives(const TarContents& tar);
/// Pictures without folders, whose classes are the lines of --labels.
Result<SourceListing> list_flat_pictures(const TarContents& tar);

}  // namespace dlpipe::data
