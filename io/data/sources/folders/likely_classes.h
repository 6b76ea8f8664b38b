// Whether the folders of SRC are classes or something else, by the paths of their images and by the lists next to them. For
// folder.cpp: which folders are the classes, what is rejected, and the command that reads it. One thread; reads the file
// system.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::data {

/// The folders below a root that hold images, at any depth.
struct ImageTree {
  size_t images = 0;  // directly in it
  std::map<std::string, ImageTree> folders;
};

/// What the files in a folder say about the images in its folders.
struct LabelsBeside {
  /// "; if 'train.csv' next to it lists the classes of its images: dlpipe ingest ROOT/train.csv DST"; "" without such a file.
  std::string hint;
  bool has_list = false;  // the hint names a list that lists images
};
/// Looks in `root` and, if no list is there, in its folders that are named like splits.
LabelsBeside labels_beside(const std::string& root, const SourceOptions& options);

class LikelyClasses {
 public:
  /// For a listing that uses the folders of `root` as classes. All arguments must outlive it.
  LikelyClasses(const std::string& root, const SourceOptions& options, const SourceListing& listing);

  /// The folder below the root that contains all images and whose folders are the classes; "" if there is none.
  Result<std::string> classes_below() const;
  std::string note_of(const std::string& below_root) const;
  /// kMisuse for what certainly is not a dataset of these classes, with the command that reads it if there is one.
  Status check() const;
  void warn(std::vector<std::string>& warnings) const;
  /// Follows the warning that there is only one class.
  std::string hint_for_one_class(bool has_splits) const;

 private:
  void warn_of_deeper_folders(std::vector<std::string>& warnings) const;
  std::string deeper_command() const;
  /// For images that are all in one folder whose name is not a class.
  std::string hint_without_class() const;
  /// Computed at the first call.
  const LabelsBeside& labels() const;
  std::string hint_of_labels(std::string_view otherwise) const;

  const std::string& root_;
  const SourceOptions& options_;
  const SourceListing& listing_;
  ImageTree tree_;
  mutable std::optional<LabelsBeside> labels_;
};

/// The first folder below `root`, not very deep, that a source other than `folder` reads, such as MNIST's raw/. "" for none.
std::string other_source_below(const std::string& root, const SourceOptions& options);

/// "if the names of its files contain them ('cat', 'dog'): ..." with the commands that list `names`, the images in `folder`, by
/// the part before their number and ingest them; "" unless all have such a part and there are several classes.
std::string hint_of_names(const std::string& folder, std::span<const std::string> names);

}  // namespace dlpipe::data
