// The meaning of some options' values: the words of options with a few choices, and --dtype, --tf32 and --no-cudnn on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.h"
#include "dlpipe/device.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "dlpipe/op.h"
#include "engine/collective/collective.h"
#include "engine/core/kernel_table.h"

namespace dlpipe::run {

/// --tta: the views of an image over which validation, eval and predict average (use/evaluate.h).
enum class Views : uint8_t {
  kOne,   // the image
  kFlip,  // the image and its mirror image
  /// Half of the weight is on the image, a quarter each on copies shifted by a pixel up and left, and down and right (edges
  /// reflected); each also mirrored. Six views.
  kFlipTranslate,
  /// The four corners and the centre of the image, each 7/8 of its height and width (224 of 256), rounded down: the crops of
  /// torchvision's FiveCrop. The model gets images of that size, so the chain must make larger ones.
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

/// --graph: whether a device's steps are launched as one graph (train/step/device_step.cpp). kOn: an error if they can't be.
enum class GraphUse : uint8_t { kAuto, kOn, kOff };
inline constexpr Named<GraphUse> kGraphNames[] = {
    {"auto", GraphUse::kAuto}, {"on", GraphUse::kOn}, {"off", GraphUse::kOff}};
inline Result<GraphUse> parse_graph(std::string_view name) {
  return value_named(kGraphNames, name, "train", "--graph");
}

/// --decode: where a GPU's images are decoded.
inline constexpr Named<pipeline::Decode> kDecodeNames[] = {{"auto", pipeline::Decode::kAuto},
                                                           {"host", pipeline::Decode::kHost},
                                                           {"device", pipeline::Decode::kDevice}};

/// --compress: the format of gradients between grains and processes.
inline constexpr Named<engine::Wire> kCompressNames[] = {{"none", engine::Wire::kF32},
                                                         {"bf16", engine::Wire::kBf16}};
inline Result<engine::Wire> parse_compress(std::string_view name) {
  return value_named(kCompressNames, name, "train", "--compress");
}

/// --exact: whether gradients are summed along one tree, so that their bits do not depend on the number of processes.
inline constexpr Named<bool> kExactNames[] = {{"on", true}, {"off", false}};
inline Result<bool> parse_exact(std::string_view name) {
  return value_named(kExactNames, name, "train", "--exact");
}

/// --isa: "auto", the machine's best (no value), or one of engine::kKernelIsaNames.
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

/// --kernels, and the environment's DLPIPE_KERNELS (record/kernels.h).
enum class KernelsBy : uint8_t { kAuto, kMeasured, kRules };
inline constexpr Named<KernelsBy> kKernelsByNames[] = {
    {"auto", KernelsBy::kAuto}, {"measured", KernelsBy::kMeasured}, {"rules", KernelsBy::kRules}};

/// --cache: whether linked JPEGs are kept as coefficient records.
inline constexpr Named<bool> kCacheNames[] = {{"none", false}, {"coefficients", true}};
inline Result<bool> parse_cache(std::string_view name) {
  return value_named(kCacheNames, name, "train", "--cache");
}

/// --receipt: whether the hash over all batches includes their pixels.
inline constexpr Named<bool> kReceiptNames[] = {{"params", false}, {"pixels", true}};
inline Result<bool> parse_receipt(std::string_view name) {
  return value_named(kReceiptNames, name, "train", "--receipt");
}

/// --on-nonfinite: whether a step with a loss or gradient that is not finite is skipped.
inline constexpr Named<bool> kNonfiniteNames[] = {{"stop", false}, {"skip", true}};
inline Result<bool> parse_on_nonfinite(std::string_view name) {
  return value_named(kNonfiniteNames, name, "train", "--on-nonfinite");
}

/// What --dtype may be: "f32", "bf16", "f16".
std::vector<std::string> precision_names();

/// The dtype that training on `device` is autocast to. kMisuse for unsupported combinations: f16 on the host.
Result<DType> training_dtype(std::string_view name, const Device& device);

/// The same for a trained model, which runs anywhere: f32 if a model trained in f16 runs on the host.
Result<DType> inference_dtype(std::string_view name, const Device& device);

/// The dtype that a compiled model is autocast to. It runs on the CPU, by commands that have no --device: kMisuse for all but f32
/// and bf16.
Result<DType> compiled_dtype(std::string_view name);

/// Whether `--tf32` applies on `device`. If it is `wanted` on the host, warns that it has no effect there.
bool take_tf32(bool wanted, const Device& device);

/// Which library's convolutions and attention a bench uses on `device`, with or without `--no-cudnn`. kMisuse for --no-cudnn on
/// the host, where it has no effect.
Result<engine::Cudnn> take_cudnn(bool no_cudnn, const Device& device);

}  // namespace dlpipe::run
