// Folders that would be classes, and may be something else: what is meant, what is refused, what is said.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/folders/labels_beside.h"
#include "dlpipe/io/data/sources/folders/picture_tree.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

class LikelyClasses {
 public:
  /// Of a listing that takes the folders of `root` as classes. All must outlive it.
  LikelyClasses(const std::string& root, const SourceOptions& options, const SourceListing& listing)
      : root_(root), options_(options), listing_(listing), tree_(picture_tree(listing.entries)) {}

  /// The folder below the root whose folders are the classes, since all pictures lie in them; "" where nothing says so.
  Result<std::string> classes_below() const;
  std::string note_of(const std::string& below_root) const;
  /// kMisuse for what is certainly no dataset of these classes, with the command that reads it where there is one.
  Status check() const;
  void warn(std::vector<std::string>& warnings) const;
  /// Behind the warning that there is one class alone.
  std::string hint_for_one_class(bool has_splits) const;

 private:
  void warn_of_deeper_folders(std::vector<std::string>& warnings) const;
  std::string deeper_command() const;
  /// Of pictures that all lie in one folder, which says no class.
  std::string hint_without_class() const;
  /// Read when it is asked for.
  const LabelsBeside& labels() const;
  std::string hint_of_labels(std::string_view otherwise) const;

  const std::string& root_;
  const SourceOptions& options_;
  const SourceListing& listing_;
  PictureTree tree_;
  mutable std::optional<LabelsBeside> labels_;
};

}  // namespace dlpipe::data
