// Files of a tar archive as samples of WebDataset: those that share a name up to its first dot, their key, are one sample.
// The rest of a name is the file's ending, and its last piece says what the file is: seg.png is a picture, target.cls a
// class. Pure functions of names, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/io/data/sources/archives/tar_file.h"

namespace dlpipe::data {

enum class ShardPartKind { kPicture, kClass, kJson, kText, kOther };

struct ShardPart {
  std::string ending;  // all behind the first dot, in lower case
  ShardPartKind kind;
  const TarMember* member;
};

struct ShardSample {
  std::string_view key;
  std::vector<ShardPart> parts;
  bool has_twice = false;  // two files of one ending

  const ShardPart* part(std::string_view ending) const;
  bool has(ShardPartKind kind) const;
};

/// "a/b.c.jpg" -> "a/b".
std::string_view shard_key(std::string_view name);
/// The samples, in the order of their first files. Points into `index`.
std::vector<ShardSample> shard_samples(const TarIndex& index);

/// Whether an ending is called as something that is learnt beside a picture: seg.png, semantic_mask.png, depth.png.
bool is_called_mask(std::string_view ending);
/// The picture of a sample: of several that are neither among `masks` nor called so, the one without a name of its own
/// (jpg, not left.jpg), else the one called image, input, ... Null where that says of none or of several.
/// With `only_masks` what is called a mask is a picture as any other.
const ShardPart* picture_of(const ShardSample& sample, std::span<const std::string> masks, bool only_masks);

}  // namespace dlpipe::data
