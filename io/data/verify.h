// Finds errors in a dataset: records that do not match their checksums or header rows, images that can't be decoded (`dlpipe
// verify`), and images that are in several splits or classes (`dlpipe verify` and ingest; ingest also finds near copies).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "io/data/look_alike.h"

namespace dlpipe::data {

struct VerifyOptions {
  bool decode = false;
  int jobs = 0;  // 0: as many as the process may use
  int64_t max_pixels = 178'956'970;
  std::function<bool()> stop_requested;
};

struct VerifyReport {
  struct Bad {
    int64_t sample = 0;
    std::string path;  // "" when the record can't be parsed
    std::string reason;
    std::string gone = {};  // the linked file that is missing; "" if something else is wrong
  };
  int64_t samples = 0;
  /// Samples whose whole contents could be compared. With late checksums, these may be fewer than all: for the others, only the
  /// size, time and beginning of the image were compared, and their checksums are known from now on.
  int64_t known = 0;
  uint64_t bytes = 0;    // of records
  std::vector<Bad> bad;  // by sample
  /// image_checksum() of each sample; 0 if it has no image or a bad record.
  std::vector<uint64_t> image_checksums;
  bool id_matches = true;
  double seconds = 0;
  bool ok() const { return bad.empty() && id_matches; }
};

/// Fails only if nothing could be verified; corrupt samples are in the report.
Result<VerifyReport> verify(const Dataset& dataset, const VerifyOptions& options,
                            const std::function<void(int64_t done, int64_t total)>& progress = {});

/// checksum64 of the record's image as stored, or of the file's bytes if it is linked; 0 if there is none.
Result<uint64_t> image_checksum(const Dataset& dataset, std::span<const std::byte> record);

/// Images that are identical in several splits, folds or classes: metrics of such a split measure what was seen in training, and one
/// of the classes is wrong. Copies within one split, fold and class are ignored, because samples may be repeated on purpose. Images
/// are compared by a 64-bit checksum of their stored bytes. With late checksums, files of the same size and beginning are read
/// whole for this, up to 1,024 of them.
struct DuplicateImages {
  struct Place {
    size_t split = 0;  // its number among the datasets
    int64_t sample = 0;
  };
  struct Pair {
    Place first, second;
  };
  std::string parts = "split";              // what copies are in several of: "fold" or "split or fold"
  int64_t in_splits = 0;                    // images in more than one split or fold
  int64_t in_classes = 0;                   // images with more than one class
  std::vector<Pair> of_splits, of_classes;  // the first few
  // Of images whose looks are known: those that look like one in another split or fold, but differ in their bytes.
  int64_t alike = 0;
  std::vector<Pair> of_alike;
};

/// Finds duplicates. Only one thread may add images. Memory: 24 bytes per image, for at most 64 Mi images, and 112 per look (216
/// while they are compared), for at most 16 Mi; images beyond that are ignored.
class StoredImages {
 public:
  /// A split's samples are added in order, from any one to the last. `checksum` 0: unknown. `fold`: the value of the field kFoldField;
  /// "": the sample has none.
  void add(size_t split, int64_t sample, uint64_t checksum, const ImageLook& look = {},
           std::string_view fold = {});
  /// Reads those that were not added because an earlier call of an interrupted ingest stored them, and decodes them for their
  /// looks if `look_threads` is not 0. Not for late checksums.
  Status add_missing(size_t split, const Dataset& dataset, int look_threads = 0);
  /// For late checksums, which cover the beginning of files: those that may be in several splits or classes are read whole.
  Status read_whole(std::span<const std::shared_ptr<const Dataset>> splits);
  Result<DuplicateImages> duplicates(std::span<const std::shared_ptr<const Dataset>> splits,
                                     int look_threads = 0);

 private:
  struct Image {
    uint64_t checksum = 0;
    uint32_t split = 0, part = 0;
    int64_t sample = 0;
  };
  uint32_t part_of(size_t split, std::string_view fold);
  void sort();
  void add_look(const SeenImage& seen);
  void find_alike(int threads, DuplicateImages& found);

  std::vector<Image> images_;
  std::vector<SeenImage> seen_;
  std::vector<int64_t> first_added_;                          // of each split; -1: none
  std::map<std::pair<size_t, std::string>, uint32_t> parts_;  // by split and fold
};

/// Warnings that count them and name the first ones, "[ingest] 2 images are ..."; empty if there are none. `names`: of the
/// splits. `cure`: what to do about copies in several splits.
Result<std::vector<std::string>> warnings_of(const DuplicateImages& duplicates, std::string_view area,
                                             std::span<const std::string> names,
                                             std::span<const std::shared_ptr<const Dataset>> splits,
                                             std::string_view cure);

}  // namespace dlpipe::data
