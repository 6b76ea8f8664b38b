// Losses by name (`--loss`; metrics are in engine/metrics/metrics.h). Adding one is one row of the table in
// loss.cpp; a program adds a record of its own to a LossRegistry. Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/optim/option_default.h"

namespace dlpipe::run {

struct LossArguments {
  double label_smoothing = 0;
};

struct LossRecord {
  static constexpr const char* kKind = "loss";
  static std::span<const LossRecord* const> built_in();

  const char* name;
  const char* help;
  /// logits [N,K] floating, target i64 [N], weight f32 [N] (0 leaves a sample out) -> scalar, mean over
  /// samples by weight. A sample that is mixed with another (mixup, cutmix) comes as two rows of the same
  /// logits.
  engine::Tensor (*compute)(const engine::Tensor& logits, const engine::Tensor& target,
                            const engine::Tensor& weight, const LossArguments& arguments);
  std::span<const engine::OptionDefault> options = {};  // that it looks at
};

/// A value: copy builtin() and add to it.
using LossRegistry = Registry<LossRecord>;
/// A built-in one; kMisuse with the nearest name when there is none.
Result<const LossRecord*> find_loss(std::string_view name);

}  // namespace dlpipe::run
