// Pictures with objects in them, as COCO, Pascal VOC and YOLO describe them, as a listing: the field boxes, and of each
// box its class (box_labels), a flag (crowd, difficult) and key points (points). Where objects have outlines, or pictures
// files of masks, the field mask. The sources parse; this file looks at the pictures' files, names their samples and reads
// them.
//
// Threads: as Source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/annotations/outlines.h"
#include "dlpipe/io/data/sources/read_budget.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

struct AnnotatedPicture {
  std::string path;   // below its part's folder
  size_t part = 0;    // index into the parts
  int32_t width = 0;  // as its annotations say; 0: they don't
  int32_t height = 0;
  std::string problem = {};            // not empty: why its annotations can't be taken
  std::vector<float> boxes = {};       // x_min, y_min, x_max, y_max
  std::vector<int64_t> labels = {};    // one for each box, as are the others
  std::vector<float> flags = {};       // 0 or 1
  std::vector<float> points = {};      // x, y, visible, Kinds::points of them
  std::vector<Outline> outlines = {};  // of its objects, or of some
  std::string mask_file = {};          // or: the mask as a file below the part's folder of masks
  std::string described = {};          // where, for people: "a.json, image 7"; "": it is clear by its path
  bool is_listed = false;              // by a line of a list, which may be there again: one more sample
};

/// Files that are read for every line of a list that names them: what they hold is in memory as often.
class FilesAgain {
 public:
  explicit FilesAgain(const SourceOptions& options) : budget_(options, options.path, 0) {}
  /// kUnsupported where those that were read before are too many times what all files have together (read_budget.h).
  Status take(const std::string& file, uint64_t bytes);

 private:
  ReadBudget budget_;
  std::unordered_set<std::string> seen_;
};

class AnnotatedPictures {
 public:
  /// A folder of pictures.
  struct Part {
    std::string folder;
    std::string prefix;  // of its samples' paths: "" or "NAME/", which no other part has
    std::string split = {};
    std::string masks = {};  // the folder of the masks' files
  };
  struct Kinds {
    std::string flag = {};     // what the field of the flags is called; empty: none
    int64_t points = 0;        // of each box; 0: none
    bool is_relative = false;  // boxes and points are shares of the picture's width and height
    bool has_objects = true;   // false: pictures have masks alone, and none of the fields of objects
  };

  /// Adds `pictures` to the listing, whose classes are set. A picture that isn't there, or whose path leads out of its
  /// folder, is an entry with a problem. One that a list of its part names again (is_listed) is one more sample, with "again-2/" in its path;
  /// kCorrupt for any other that is described twice.
  Status add(std::vector<Part> parts, const Kinds& kinds, std::vector<AnnotatedPicture> pictures,
             SourceListing& listing);
  /// The file of an entry of that listing.
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const;
  /// The mask of an entry of that listing, which may have been numbered anew (Source::read_referred); no bytes where the
  /// picture has not the size that its annotations say, which whoever reads it refuses. kUnsupported where it would be drawn
  /// for more than `max_pixels`.
  Result<std::vector<std::byte>> read_mask(const SourceEntry& entry, std::string_view reference,
                                           int64_t max_pixels) const;
  Link where(const SourceEntry& entry) const { return {full(entry), 0, entry.size_bytes, true}; }

 private:
  std::string full(const SourceEntry& entry) const;
  bool takes_masks(const std::vector<AnnotatedPicture>& pictures, SourceListing& listing) const;
  std::string mask_reference(AnnotatedPicture& picture, const Part& part);
  /// The same pictures with another prefix, for those that are there for the `time`th time.
  size_t part_for(size_t part, size_t time);

  std::vector<Part> parts_;
  std::map<std::pair<size_t, size_t>, size_t> again_;  // part and time -> part
  Outlines outlines_;
};

/// A source of such pictures: its list() fills `pictures_`, which reads them.
class AnnotatedSource : public Source {
 public:
  explicit AnnotatedSource(SourceOptions options) : options_(std::move(options)) {}

  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return pictures_.read(entry);
  }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const final {
    return pictures_.read_mask(entry, reference, options_.max_pixels);
  }
  Result<Link> where(const SourceEntry& entry) const final { return pictures_.where(entry); }

 protected:
  SourceOptions options_;
  AnnotatedPictures pictures_;
};

}  // namespace dlpipe::data
