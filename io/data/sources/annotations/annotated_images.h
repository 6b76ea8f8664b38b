// A listing of images with objects, as COCO, Pascal VOC and YOLO describe them: the field boxes, and for each box its class
// (box_labels), a flag (crowd, difficult) and key points (points); if objects have outlines or images have mask files, also the
// field mask. The sources parse; this file checks the images' files, names their samples and reads them.
//
// Threads: the same as for Source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/sources/annotations/outlines.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

struct AnnotatedImage {
  std::string path;   // below its part's folder
  size_t part = 0;    // index into the parts
  int32_t width = 0;  // from its annotations; 0: unknown
  int32_t height = 0;
  std::string problem = {};            // not empty: why its annotations can't be used
  std::vector<float> boxes = {};       // x_min, y_min, x_max, y_max
  std::vector<int64_t> labels = {};    // one for each box, like flags and points
  std::vector<float> flags = {};       // 0 or 1
  std::vector<float> points = {};      // x, y, visible, Kinds::points of them
  std::vector<Outline> outlines = {};  // of its objects, or of some
  std::string mask_file = {};          // or: the mask as a file below the part's folder of masks
  std::string described = {};          // where, for messages: "a.json, image 7"; "": its path is enough
  bool is_listed = false;              // by a line of a list; a repeated line adds another sample
};

/// "600, 10, 700, 20": a box for messages.
std::string in_words(std::span<const float> box);
/// Names a box with an area that lies entirely outside of an image of that size; "" if there is none: "the box 600, 10, 700, 20
/// is outside the image, which is 500x375".
std::string outside_of_image(std::span<const float> boxes, int64_t width, int64_t height);

/// Files that are read for every line of a list that names them, so their contents are in memory that many times.
class FilesAgain {
 public:
  explicit FilesAgain(const SourceOptions& options) : budget_(options, options.path, 0) {}
  /// kUnsupported if repeated files need too many times the size of all files together (ReadBudget).
  Status take(const std::string& file, uint64_t bytes);

 private:
  ReadBudget budget_;
  std::unordered_set<std::string> seen_;
};

class AnnotatedImages {
 public:
  /// A folder of images.
  struct Part {
    std::string folder;
    std::string prefix;  // of its samples' paths: "" or "NAME/", which no other part has
    std::string split = {};
    std::string masks = {};  // the folder of the masks' files
  };
  struct Kinds {
    std::string flag = {};     // name of the field of flags; empty: none
    int64_t points = 0;        // of each box; 0: none
    bool is_relative = false;  // boxes and points are shares of the image's width and height
    bool has_objects = true;   // false: images have only masks and no fields of objects
  };

  /// Adds `images` to the listing, whose classes are set. An image that is missing, or whose path leads outside its folder,
  /// becomes an entry with a problem. An image that a list of its part repeats (is_listed) becomes another sample, with
  /// "again-2/" in its path; kCorrupt for any other image that is described twice.
  Status add(std::vector<Part> parts, const Kinds& kinds, std::vector<AnnotatedImage> images,
             SourceListing& listing);
  /// The file of an entry of that listing.
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const;
  /// The mask of an entry of that listing, whose classes may have been renumbered (Source::read_referred). No bytes if the
  /// image does not have the size in its annotations, which its reader rejects. kUnsupported if it would have more than
  /// `max_pixels`.
  Result<std::vector<std::byte>> read_mask(const SourceEntry& entry, std::string_view reference,
                                           int64_t max_pixels) const;
  Link where(const SourceEntry& entry) const { return {full(entry), 0, entry.size_bytes, true}; }

 private:
  std::string full(const SourceEntry& entry) const;
  bool takes_masks(const std::vector<AnnotatedImage>& images, SourceListing& listing) const;
  std::string mask_reference(AnnotatedImage& image, const Part& part);
  /// The number of a copy of `part` with another prefix, for images that appear for the `time`th time.
  size_t part_for(size_t part, size_t time);

  std::vector<Part> parts_;
  std::map<std::pair<size_t, size_t>, size_t> again_;  // part and time -> part
  Outlines outlines_;
};

/// A source of such images: its list() fills `images_`, which reads them.
class AnnotatedSource : public Source {
 public:
  explicit AnnotatedSource(SourceOptions options) : options_(std::move(options)) {}

  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override { return images_.read(entry); }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const final {
    return images_.read_mask(entry, reference, options_.max_pixels);
  }
  Result<Link> where(const SourceEntry& entry) const final { return images_.where(entry); }

 protected:
  SourceOptions options_;
  AnnotatedImages images_;
};

// Lists of names in Pascal VOC's ImageSets: Main's for images with boxes, Segmentation's for those with masks.

/// Images' names without an ending, by the splits that the lists make; empty lists make none.
using ImageSets = std::map<std::string, std::vector<std::string>>;

/// train.txt, val.txt and test.txt of ROOT/ImageSets/KIND; trainval.txt is train if there is no train.txt. Empty if none of
/// them exists.
Result<ImageSets> read_image_sets(const std::filesystem::path& root, std::string_view kind);

}  // namespace dlpipe::data
