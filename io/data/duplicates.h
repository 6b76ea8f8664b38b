// Images that stand in several splits, or under several classes, byte for byte: what is measured on such a split was seen in
// training, and one of the classes is wrong. Copies within one split and class are left alone, as samples may be repeated on
// purpose. Images are compared by a checksum of 64 bits of what is stored of them. Where checksums are late, files of one size that
// begin alike are read whole for that, the first 1,024 of them.
//
// One thread. Memory: 24 bytes per image, of at most 64 Mi images; what is more than that isn't looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

/// checksum64 of the record's image as it is stored, of a linked one that of the file's bytes; 0 where there is none.
Result<uint64_t> image_checksum(const Dataset& dataset, std::span<const std::byte> record);

struct DuplicateImages {
  struct Place {
    size_t split = 0;  // its number among the datasets
    int64_t sample = 0;
  };
  struct Pair {
    Place first, second;
  };
  int64_t in_splits = 0;                    // images in more than one split
  int64_t in_classes = 0;                   // images with more than one class
  std::vector<Pair> of_splits, of_classes;  // the first few
};

class StoredImages {
 public:
  /// The samples of a split come in their order, from any one to the last. `checksum` 0: it isn't known.
  void add(size_t split, int64_t sample, uint64_t checksum);
  /// Those that were not added, as they came in an earlier call of an interrupted ingest, are read. Not of late checksums.
  Status add_missing(size_t split, const Dataset& dataset);
  /// Of late checksums, which say what files begin with: those that may be in several splits or classes are read whole.
  Status read_whole(std::span<const std::shared_ptr<const Dataset>> splits);
  Result<DuplicateImages> duplicates(std::span<const std::shared_ptr<const Dataset>> splits);

 private:
  struct Image {
    uint64_t checksum = 0;
    size_t split = 0;
    int64_t sample = 0;
  };
  void sort();

  std::vector<Image> images_;
  std::vector<int64_t> first_added_;  // of each split; -1: none
};

/// Warnings that count them and name the first, "[ingest] 2 images are ..."; none where there are none. `names` are those of the
/// splits.
Result<std::vector<std::string>> warnings_of(const DuplicateImages& duplicates, std::string_view area,
                                             std::span<const std::string> names,
                                             std::span<const std::shared_ptr<const Dataset>> splits);

}  // namespace dlpipe::data
