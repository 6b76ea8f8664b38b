// Which files of a folder are images, for both `ingest` and `predict`. An image is a regular file with an image's ending (links
// are followed); its bytes later decide the format. A broken link with such an ending is an image that cannot be read. Ignored
// and counted: hidden names, folders that systems create (__MACOSX, @eaDir, ...), other files, pipes and devices. Ignored and
// named: other broken links, and links that lead back to themselves or to a folder above. A folder that cannot be listed is an
// error.
//
// An ImageFolder belongs to one thread. It uses names and stat; it opens no file. read_head() reads the beginning of a linked
// image, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/linked_records.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

/// Folders that an archiver, a file server or a system creates.
bool is_system_folder(const std::string& name);
/// "2 x hidden, 1 x .txt" for kinds with their counts, the most frequent first; "" for none.
std::string kinds_text(const std::map<std::string, int64_t>& kinds);

struct FoundImage {
  std::string path;  // below the root; the file system's bytes
  FileStamp stamp;
  FileId id;                 // empty for one with a problem
  std::string problem = {};  // not empty: why it can't be read
};

class ImageFolder {
 public:
  explicit ImageFolder(std::string root);

  /// Files of this name are not ignored, but listed by noted().
  void note(std::string name) { noted_names_.push_back(std::move(name)); }
  /// The paths of those so far, below the root.
  const std::vector<std::string>& noted() const { return noted_; }

  struct Names {
    std::vector<std::string> folders;  // sorted by bytes, as are the images
    std::vector<FoundImage> images;
  };
  /// What is directly in root/`relative` ("": the root). An error if it can't be listed.
  Result<Names> names_in(const std::string& relative);
  /// All images below root/`relative`, including the root's own if `relative` is empty. A folder that can't be listed is an
  /// error, because it may contain a whole class. With `unlisted`, such a folder and the error are passed to it instead, and
  /// the walk continues.
  Status walk(const std::string& relative, const std::function<void(FoundImage)>& found,
              const std::function<void(const std::string& folder, const Status& error)>& unlisted = {});
  /// "2 x hidden, 1 x .txt": what was ignored so far, the most frequent first; "" if nothing was.
  std::string left_aside() const;
  /// Broken or circular links without an image's name, by problem: "broken links, which may have been folders of images: 'cat',
  /// 'a/notes'".
  std::vector<std::string> lost_links() const;
  const std::string& root() const { return root_; }

 private:
  /// Handles `error`, stat()'s result for `path`.
  Status take_unseen(const std::string& path, const std::string& name, int error, Names& names);
  Status look_at(const std::string& relative, const std::string& name, const std::vector<FileId>& above,
                 Names& names);
  /// The folders from the root to root/`relative`; an entry that is one of them again is a loop.
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

/// The beginning of an image file: enough to say what the image is, for links to many images that are not read in full.
struct ImageHead {
  std::vector<std::byte> bytes;  // the first ones, at least kLateBegin of those that there are
  ImageInfo info;
};

/// Usually reads 4 KB of a JPEG or PNG, more if its header is longer, and all of other formats. kChanged if the file was written
/// since `modified_ns`, is gone, or, for a whole file, has another size; other errors as in probe_image.
Result<ImageHead> read_head(const Link& link, int64_t modified_ns);

}  // namespace dlpipe::data
