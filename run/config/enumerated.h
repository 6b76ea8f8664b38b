// Options that are one of a few words: each word stands here once, with what it means. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/named_values.h"
#include "dlpipe/engine/collective/wire.h"
#include "dlpipe/engine/core/kernel_table.h"

namespace dlpipe::run {

/// --tta: the views of a picture over which validation, eval and predict average (use/views.h).
enum class Views : uint8_t {
  kOne,   // the picture
  kFlip,  // the picture and its mirror image
  /// Half the weight on the picture, a quarter each on it moved by a pixel up and left, and down and right
  /// (edges reflected); of each also the mirror image. Six views.
  kFlipTranslate,
  /// The four corners and the centre of the picture, each 7/8 of its height and width (224 of 256), rounded down: the crops of
  /// torchvision's FiveCrop. The model sees pictures of that size, so the chain makes larger ones.
  kFiveCrop,
  kTenCrop,  // the same five and the mirror image of each (TenCrop)
};
inline constexpr Named<Views> kViewNames[] = {{"none", Views::kOne},
                                              {"flip", Views::kFlip},
                                              {"flip_translate", Views::kFlipTranslate},
                                              {"five_crop", Views::kFiveCrop},
                                              {"ten_crop", Views::kTenCrop}};
/// kMisuse suggests the nearest name.
inline Result<Views> parse_views(std::string_view name) {
  return value_named(kViewNames, name, "eval", "--tta");
}

/// --graph: whether a device's steps are launched as one graph (train/step/step_graph.h). kOn: an error where they
/// can't be.
enum class GraphUse : uint8_t { kAuto, kOn, kOff };
inline constexpr Named<GraphUse> kGraphNames[] = {
    {"auto", GraphUse::kAuto}, {"on", GraphUse::kOn}, {"off", GraphUse::kOff}};
inline Result<GraphUse> parse_graph(std::string_view name) {
  return value_named(kGraphNames, name, "train", "--graph");
}

/// --compress: what gradients are between grains and processes.
inline constexpr Named<engine::Wire> kCompressNames[] = {{"none", engine::Wire::kF32},
                                                         {"bf16", engine::Wire::kBf16}};
inline Result<engine::Wire> parse_compress(std::string_view name) {
  return value_named(kCompressNames, name, "train", "--compress");
}

/// --exact: whether gradients are summed along one tree, so that their bits don't depend on the number of processes.
inline constexpr Named<bool> kExactNames[] = {{"on", true}, {"off", false}};
inline Result<bool> parse_exact(std::string_view name) {
  return value_named(kExactNames, name, "train", "--exact");
}

/// --isa: "auto", the best that the machine has and no value, or one of engine::kKernelIsaNames.
inline std::vector<std::string> isa_choices() {
  std::vector<std::string> names = names_of(engine::kKernelIsaNames);
  names.insert(names.begin(), "auto");
  return names;
}
inline Result<std::optional<engine::KernelIsa>> parse_isa(std::string_view name) {
  if (name == "auto") return std::optional<engine::KernelIsa>();
  DLPIPE_ASSIGN_OR_RETURN(const engine::KernelIsa isa,
                          value_named(engine::kKernelIsaNames, name, "train", "--isa"));
  return std::optional(isa);
}

/// --kernels, and the environment's DLPIPE_KERNELS (record/kernel_measurements.h).
enum class KernelsBy : uint8_t { kAuto, kMeasured, kRules };
inline constexpr Named<KernelsBy> kKernelsByNames[] = {
    {"auto", KernelsBy::kAuto}, {"measured", KernelsBy::kMeasured}, {"rules", KernelsBy::kRules}};

/// --cache: whether linked JPEGs are kept as coefficient records.
inline constexpr Named<bool> kCacheNames[] = {{"none", false}, {"coefficients", true}};
inline Result<bool> parse_cache(std::string_view name) {
  return value_named(kCacheNames, name, "train", "--cache");
}

/// --receipt: whether the hash over all batches takes in their pixels.
inline constexpr Named<bool> kReceiptNames[] = {{"params", false}, {"pixels", true}};
inline Result<bool> parse_receipt(std::string_view name) {
  return value_named(kReceiptNames, name, "train", "--receipt");
}

/// --on-nonfinite: whether a step whose loss or gradient isn't finite is skipped.
inline constexpr Named<bool> kNonfiniteNames[] = {{"stop", false}, {"skip", true}};
inline Result<bool> parse_on_nonfinite(std::string_view name) {
  return value_named(kNonfiniteNames, name, "train", "--on-nonfinite");
}

}  // namespace dlpipe::run
