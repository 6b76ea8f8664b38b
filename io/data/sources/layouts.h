// How datasets are laid out on disk: the names of splits and of image folders, the table of published layouts, the folder of
// the images that a list names. Shared by the sources that read these. Looks at names and at what exists; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::data {

// Names.

/// "train", "val" or "test" for a name of a split (Training, valid, validation, testing, ...); else "".
std::string_view split_of_name(std::string_view name);
/// The split that one word of a name indicates: "train" of "imagenet-train-000000". "" if none does, or two differ.
std::string split_in_words(std::string_view text);
/// Folders and the splits that they become, for messages: "'train', 'validation' as val".
std::string splits_text(std::span<const std::pair<std::string, std::string>> folders_and_splits);
/// Whether a folder of this name usually contains images and nothing else: images, jpg, ...
bool is_called_images(const std::string& name);
/// True for .tar, .tar.gz, .tgz, .tar.zst and .tzst.
bool has_tar_name(const std::string& path);
/// The name without its folders and that ending.
std::string tar_stem(const std::string& path);
/// True for .tfrecord, .tfrecords, .tfrec and NAME-00000-of-00010, each also with .gz appended.
bool has_tfrecord_name(const std::string& path);

// Published layouts.

/// A row of the table: what is in a folder of such a dataset, and what reads it.
struct PublishedLayout {
  std::string_view source;            // the one that reads it; "": none, use `command`
  int sure;                           // as SourceRecord::recognizes returns it
  std::vector<std::string_view> has;  // patterns (files_like) below the folder, all of which match
  std::string_view files;             // pattern of the files in it that may be given instead; "": none
  std::string_view means;             // what it is
  std::string_view command;           // what reads it
};
std::span<const PublishedLayout> published_layouts();

/// The files and folders below `root` that match `pattern`, sorted by path for each alternative; `most` of them at most. Names
/// between slashes: `*`, `?` and [] in a name match as in a shell, without hidden files and with any case of the ending;
/// a|b is a, then b; !c, behind |, excludes what matches c; SPLIT is a folder with a split's name, IMAGE a file with an
/// image's; ** is any number of folders; a slash at the end asks for a folder.
std::vector<std::filesystem::path> files_like(const std::filesystem::path& root, std::string_view pattern,
                                              size_t most = SIZE_MAX);
/// The first row of `source` whose patterns match below the folder `root`; null for none.
const PublishedLayout* find_layout(std::string_view source, const std::filesystem::path& root);
/// For layouts that no source reads: the row that `path`, a folder or a file, matches; null for none.
const PublishedLayout* find_foreign_layout(const std::filesystem::path& path);

// Folders of splits.

/// How to ingest folders as classes that would be splits or be rejected.
inline constexpr std::string_view kTakesLiterally = "--no-splits makes each folder a class";

/// A folder of SRC with what is directly in it, or in the only folder there if that is named like image folders, or like
/// itself.
struct TopFolder {
  std::string name;
  std::vector<std::string> folders;
  size_t images = 0;
  std::string path = {};  // of its contents, below SRC: "val/images"; empty: its name
  std::string list = {};  // a file in it that may list its images' classes, below SRC
};

struct SplitLayout {
  struct Part {
    std::string split;     // "train", "val", "test"
    std::string folder;    // in SRC: "val", "val/images"
    bool is_flat = false;  // images without class folders, labelled by a list
  };
  std::vector<Part> parts;           // empty: the folders of SRC are classes
  std::vector<std::string> classes;  // of all parts
  std::vector<std::string> notes;    // whole messages: what was decided, what is ignored
};

/// The splits of SRC, whose folders are `top`. Published datasets come as SRC/train/CLASS/..., SRC/val/CLASS/..., but a class
/// may also be called "train". Folders are splits if at least two have a split's name and either two of these contain folders
/// with the same name or SRC contains nothing else; also if words of their names are splits' (seg_train) and two of different
/// splits contain folders with the same name. kMisuse if they look like splits that cannot be made: classes that differ, two
/// folders for one split, images without classes, a folder with a split's name next to another with the same classes. With
/// `has_labels`, the folders for validation and test may contain images without class folders. `hint_of_lists`, called if no
/// folder has classes, returns "; " and the command for a list of them, or "". A pure function of names.
Result<SplitLayout> find_split_layout(const std::string& source, std::span<const TopFolder> top,
                                      bool has_labels = false,
                                      const std::function<std::string()>& hint_of_lists = {});

// Finding images that a list names without their location.

/// The last name of a path of any system: Label Studio writes ../../label-studio/data/media/upload/1/a.jpg, and images\\a.jpg.
std::string last_name(const std::string& path);
/// Whether the last names of all paths are different.
bool have_last_names(std::span<const std::string> paths);

/// Where the images of `list` usually are: in its folder or the one above, in images/ or data/ there or not, in one of `names`
/// there or not. Only below `images` (--images) if that is not empty.
std::vector<std::filesystem::path> folders_of_images(const std::filesystem::path& list,
                                                     const std::string& images,
                                                     std::span<const std::string> names);

struct FolderWithMost {
  std::string folder;  // without a slash at its end
  size_t found = 0;    // of the paths; 0: in none
};
/// The first of those folders that contain the most of `paths`.
FolderWithMost folder_with_most(std::span<const std::filesystem::path> folders,
                                std::span<const std::string> paths);

/// The folder that contains the most of the first of `paths`, the images of `list`: one of folders_of_images(). Programs may
/// write paths of another machine; if no folder contains any path, all of `paths` are replaced by their last names. kNotFound
/// if that does not help.
Result<std::string> locate_images(const std::string& list, const std::string& images,
                                  std::span<const std::string> names, std::vector<std::string>& paths);

/// Looks up images by name without ending, for lists of ids, in the folder that has the most of them.
class ImagesById {
 public:
  /// Reads the names in `folders`. Among folders with equally many, the first one is used.
  explicit ImagesById(std::span<const std::filesystem::path> folders);

  /// Records that the list names `id`; returns whether any of the folders has it.
  bool has(const std::string& id);
  /// The folder that has the most of those so far; "" if none has any.
  std::string folder() const;
  /// The file's name in that folder; "" if it is not there.
  std::string file_of(const std::string& id) const;

 private:
  struct Folder {
    std::string path;
    std::unordered_map<std::string, std::string> files;  // by id
    size_t found = 0;
  };
  const Folder* best() const;

  std::vector<Folder> folders_;
};

}  // namespace dlpipe::data
