// Which files of a folder are pictures: the one selection of `ingest` and `predict`. A picture is a regular file with
// a picture's ending (links are followed); its bytes decide later what it is. A link with such an ending that leads to
// nothing is a picture that can't be read. Left aside and counted: hidden names, folders that systems make (__MACOSX,
// @eaDir, ...), other files, pipes and devices; left aside and named: other links to nothing, and links that lead back to
// themselves or to a folder above. A folder that can't be listed is an error.
//
// A PictureFolder belongs to one thread. It looks at names and at stat; it opens no file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

/// Folders that an archiver, a file server or a system makes beside people's own.
bool is_system_folder(const std::string& name);
/// "2 x hidden, 1 x .txt" for kinds with their counts, the most frequent first; "" for none.
std::string kinds_text(const std::map<std::string, int64_t>& kinds);

struct FoundPicture {
  std::string path;  // below the root; bytes as the file system has them
  FileStamp stamp;
  FileId id;                 // of one with a problem nobody's
  std::string problem = {};  // not empty: why it can't be read, known already
};

class PictureFolder {
 public:
  explicit PictureFolder(std::string root);

  /// Files of this name aren't left aside, but found by noted().
  void note(std::string name) { noted_names_.push_back(std::move(name)); }
  /// The paths of those so far, below the root.
  const std::vector<std::string>& noted() const { return noted_; }

  struct Names {
    std::vector<std::string> folders;  // sorted by bytes, as are the pictures
    std::vector<FoundPicture> pictures;
  };
  /// What lies directly in root/`relative` ("": the root). An error where that can't be listed or looked at.
  Result<Names> names_in(const std::string& relative);
  /// All pictures below root/`relative`, the root's own included where `relative` is empty. A folder that can't be
  /// listed is an error: it may hold a whole class.
  Status walk(const std::string& relative, const std::function<void(FoundPicture)>& found);
  /// "2 x hidden, 1 x .txt": what was left aside so far, the most frequent first; "" if nothing was.
  std::string left_aside() const;
  /// Links that lead nowhere or in a circle and aren't called as pictures, by what is wrong with them: "links to nothing,
  /// which may have been folders of pictures: 'cat', 'a/notes'".
  std::vector<std::string> lost_links() const;
  const std::string& root() const { return root_; }

 private:
  /// What stat() said of `path` was `error`.
  Status take_unseen(const std::string& path, const std::string& name, int error, Names& names);
  Status look_at(const std::string& relative, const std::string& name, const std::vector<FileId>& above,
                 Names& names);
  /// The folders from the root to root/`relative`: what lies in that one and is one of them again is a loop.
  Result<std::vector<FileId>> folders_down_to(const std::string& relative) const;

  std::string full(const std::string& relative) const {
    return relative.empty() ? root_ : root_ + "/" + relative;
  }

  std::string root_;
  std::map<std::string, int64_t> left_aside_;  // ending or kind -> how many
  std::vector<std::string> dead_links_;
  std::vector<std::string> loops_;
  std::vector<std::string> noted_names_;
  std::vector<std::string> noted_;
};

}  // namespace dlpipe::data
