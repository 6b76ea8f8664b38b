// Learning rate at a step: a pure function of its arguments, so that resume needs no state. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/engine/optim/option_default.h"

namespace dlpipe::engine {

struct ScheduleArguments {
  std::string name = "cosine";           // constant, step, cosine, linear, one_cycle
  double lr = 0.1;                       // peak
  int64_t total_steps = 1;               // warm-up included
  int64_t warmup_steps = 0;              // linear from lr * warmup_start; not with one_cycle
  double warmup_start = 0.0;             // also where one_cycle begins
  std::vector<int64_t> milestones = {};  // step: multiply by gamma at each, counted in steps, ascending
  double gamma = 0.1;
  double final_ratio = 0.0;  // cosine, linear, one_cycle: lr at the end / peak
  double peak_at = 0.3;      // one_cycle: share of steps before the peak
};

struct ScheduleRecord {
  static constexpr const char* kKind = "schedule";
  static std::span<const ScheduleRecord> built_in();

  const char* name;
  const char* help;
  /// After the warm-up.
  double (*rate)(const ScheduleArguments& schedule, int64_t step);
  std::span<const OptionDefault> options;  // that it looks at
};
/// What ScheduleArguments::name takes.
using ScheduleRegistry = Registry<ScheduleRecord>;

/// The rate for step number `step` (0 is the first; from total_steps on it stays at the end's value).
/// With W = warmup_steps, T = total_steps and s = step:
///   warm-up (s < W)  lr * (warmup_start + (1 - warmup_start) * s / W)
///   constant         lr
///   step             lr * gamma^(number of milestones <= s)
///   cosine           end + (lr - end) * (1 + cos(pi * (s - W) / (T - W))) / 2, end = lr * final_ratio
///                    (Loshchilov and Hutter, "SGDR", 2017, equation 5, one cycle)
///   linear           lr + (end - lr) * (s - W) / (T - W)
///   one_cycle        cosine from lr * warmup_start up to lr at step peak_at * T - 1, then down to the end at
///                    step T - 1 (Smith, "Super-convergence", 2018, with PyTorch's cosine shape)
/// kMisuse: an unknown name (with the nearest), or arguments out of range.
Result<double> learning_rate(const ScheduleArguments& schedule, int64_t step);

}  // namespace dlpipe::engine
