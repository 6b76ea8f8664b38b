#include "dlpipe/optim.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/portable_math.h"
#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::engine {
namespace {

/// From `from` to `to` along half a cosine; `share` in [0, 1].
double anneal(double from, double to, double share) {
  return to + (from - to) * (1.0 + portable_sine_and_cosine(std::numbers::pi * share).cosine) / 2.0;
}

double constant(const ScheduleArguments& schedule, int64_t /*step*/) {
  return schedule.lr;
}

double step_down(const ScheduleArguments& schedule, int64_t step) {
  const auto passed = std::ranges::upper_bound(schedule.milestones, step) - schedule.milestones.begin();
  return schedule.lr * portable_power(schedule.gamma, passed);
}

/// The fraction done of the steps after the warm-up; a run with only a warm-up ends at the
/// peak.
double share_done(const ScheduleArguments& schedule, int64_t step) {
  const int64_t length = schedule.total_steps - schedule.warmup_steps;
  if (length == 0) return 0.0;
  return std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(length));
}

double cosine(const ScheduleArguments& schedule, int64_t step) {
  return anneal(schedule.lr, schedule.lr * schedule.final_ratio, share_done(schedule, step));
}

double linear(const ScheduleArguments& schedule, int64_t step) {
  return schedule.lr * (1.0 - (1.0 - schedule.final_ratio) * share_done(schedule, step));
}

double one_cycle(const ScheduleArguments& schedule, int64_t step) {
  const auto total = static_cast<double>(schedule.total_steps);
  const double last = total - 1.0;
  const double peak = std::clamp(schedule.peak_at * total - 1.0, 0.0, last);
  const double now = std::min(static_cast<double>(step), last);
  if (now <= peak && peak > 0.0) return anneal(schedule.lr * schedule.warmup_start, schedule.lr, now / peak);
  if (last <= peak) return schedule.lr;
  return anneal(schedule.lr, schedule.lr * schedule.final_ratio, (now - peak) / (last - peak));
}

constexpr OptionDefault kWarmup[] = {{"warmup", "0"}, {"warmup-start", "0"}};
constexpr OptionDefault kStep[] = {
    {"warmup", "0"}, {"warmup-start", "0"}, {"milestones", ""}, {"gamma", "0.1"}};
constexpr OptionDefault kToTheEnd[] = {{"warmup", "0"}, {"warmup-start", "0"}, {"final-ratio", "0"}};
constexpr OptionDefault kOneCycle[] = {{"warmup-start", "0"}, {"final-ratio", "0"}, {"peak-at", "0.3"}};

constexpr ScheduleRecord kSchedules[] = {
    {"constant", "the rate stays at its peak", constant, kWarmup},
    {"step", "the rate is multiplied by --gamma after each of --milestones, in epochs", step_down, kStep},
    {"cosine", "half a cosine from the peak to --final-ratio of it", cosine, kToTheEnd},
    {"linear", "a straight line from the peak to --final-ratio of it", linear, kToTheEnd},
    {"one_cycle",
     "rises along a cosine until --peak-at of the steps, then falls to --final-ratio of the peak", one_cycle,
     kOneCycle}};

bool takes_warmup(const OptionDefault& option) {
  return std::string_view(option.name) == "warmup";
}

Status check(const ScheduleRecord& record, const ScheduleArguments& schedule, int64_t step) {
  const auto is_share = [](double value) { return value >= 0.0 && value <= 1.0; };
  if (!(schedule.lr >= 0.0) || !std::isfinite(schedule.lr)) {
    return misuse("schedule", "lr is ", schedule.lr, "; give a finite number of at least 0");
  }
  if (schedule.total_steps < 1 || step < 0) {
    return misuse("schedule", "step ", step, " of ", schedule.total_steps,
                  "; give a step of at least 0 and at least 1 step in all");
  }
  if (schedule.warmup_steps < 0 || schedule.warmup_steps > schedule.total_steps) {
    return misuse("schedule", "a warm-up of ", schedule.warmup_steps, " steps in a run of ",
                  schedule.total_steps, "; give 0 to ", schedule.total_steps);
  }
  if (!is_share(schedule.warmup_start) || !is_share(schedule.final_ratio) || !is_share(schedule.peak_at)) {
    return misuse("schedule", "start of the warm-up ", schedule.warmup_start, ", final ratio ",
                  schedule.final_ratio, ", peak at ", schedule.peak_at,
                  "; each is a fraction, so give 0 to 1");
  }
  if (!(schedule.gamma > 0.0) || !std::isfinite(schedule.gamma)) {
    return misuse("schedule", "gamma is ", schedule.gamma, "; give a positive number");
  }
  if (!std::ranges::is_sorted(schedule.milestones))
    return misuse("schedule", "milestones must ascend; sort them");
  if (schedule.warmup_steps > 0 && std::ranges::none_of(record.options, takes_warmup)) {
    return misuse("schedule", record.name,
                  " has its own warm-up; leave out --warmup, --peak-at sets when the rate is highest");
  }
  return Status();
}

}  // namespace

std::span<const ScheduleRecord> ScheduleRecord::built_in() {
  return kSchedules;
}

Result<double> learning_rate(const ScheduleArguments& schedule, int64_t step) {
  DLPIPE_ASSIGN_OR_RETURN(const ScheduleRecord* const record,
                          ScheduleRegistry::builtin().find(schedule.name));
  DLPIPE_RETURN_IF_ERROR(check(*record, schedule, step));
  if (step < schedule.warmup_steps) {
    const double share = static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
    return schedule.lr * (schedule.warmup_start + (1.0 - schedule.warmup_start) * share);
  }
  return record->rate(schedule, step);
}

}  // namespace dlpipe::engine
