#include "cli/train_view.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "cli/output.h"
#include "dlpipe/metrics.h"

namespace dlpipe::cli {

namespace {

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}
std::string count(double value) {
  return human_count(std::llround(value));
}

}  // namespace

std::string metric_text(const std::string& name, double value) {
  if (std::isnan(value)) return "-";
  const auto record = engine::find_metric(name);
  return record.ok() && (*record)->is_share ? fixed(100 * value, 2) + " %" : fixed(value, 4);
}

void TrainView::print(const std::string& line) {
  end_line();
  print_note(line);
}

// Small rates keep their digits: 3e-05 is not 0.0000.
static std::string rate_text(double lr) {
  constexpr double kFourDecimals = 1e-3;
  if (lr == 0 || lr >= kFourDecimals) return fixed(lr, 4);
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), lr, std::chars_format::scientific, 1).ptr;
  return {text.data(), end};
}

/// "loss 0.8123 (mean of 37 steps; epoch's 0.9014)", shorter "loss 0.8123 mean"; for one step "loss 0.8123".
static std::string loss_text(const run::ProgressReport& r, bool with_counts) {
  const bool is_mean = r.loss_steps > 1;
  std::string text = concat("loss ", fixed(r.loss, 4));
  if (!with_counts) return text + (is_mean ? " mean" : "");
  const std::string epoch = concat("epoch's ", is_mean ? "" : "mean ", fixed(r.epoch_loss, 4));
  if (is_mean)
    text += concat(" (mean of ", human_count(r.loss_steps), " steps", r.epoch_ended ? "; " + epoch : "", ")");
  else if (r.epoch_ended)
    text += concat(" (", epoch, ")");
  return text;
}

/// "epoch 1.50/10  step 1,170/7,800  loss 0.8123 (mean of 37 steps)  lr 0.0921  1,204 samples/s  data 2.1 %  eta 1m20s  limit model"
/// `left_out`, 0 to 5, makes it shorter. In this order it leaves out the number of steps of the mean, the learning rate, the step, the
/// word "samples", and the wait for data. The limit is left out until it is known.
static std::string progress_line(const run::ProgressReport& r, int left_out) {
  const auto part = [&](int place, const std::string& text) {
    return left_out < place ? text : std::string();
  };
  return concat(
      "epoch ", fixed(r.epoch, 2), "/", fixed(r.epochs, r.epochs == std::floor(r.epochs) ? 0 : 2),
      part(3, concat("  step ", human_count(r.step), "/", human_count(r.total_steps))), "  ",
      loss_text(r, left_out < 1), part(2, concat("  lr ", rate_text(r.lr))), "  ", count(r.samples_per_s),
      part(4, " samples"), "/s", part(5, concat("  data ", percent(r.data_wait_share))), "  eta ",
      human_seconds(r.eta_seconds), r.limiting_stage.empty() ? "" : concat("  limit ", r.limiting_stage));
}

static std::string memory_table(const run::MemoryPlan& plan) {
  const auto row = [](const char* what, uint64_t bytes) -> std::vector<std::string> {
    return {what, human_bytes(bytes)};
  };
  std::vector<std::vector<std::string>> rows = {{"memory plan", concat("batch ", plan.batch)},
                                                row("parameters", plan.parameters),
                                                row("gradients", plan.gradients),
                                                row("optimizer", plan.optimizer),
                                                row("activations", plan.activations),
                                                row("workspace", plan.workspace),
                                                row("batch slots", plan.slots),
                                                row("decode, augment", plan.scratch)};
  if (plan.average > 0) rows.push_back(row("average (--ema)", plan.average));
  rows.push_back(row("all", plan.total()));
  return format_table(rows);
}

void TrainView::on_start(const run::StartReport& report) {
  std::string line = concat(
      counted(report.train_samples + report.left_out, "training sample"),
      report.left_out > 0 ? concat(" (each epoch leaves out ", human_count(report.left_out),
                                   report.left_out == 1 ? ", a different one each time, which doesn't"
                                                        : ", different ones each time, which don't",
                                   " fill a batch)")
                          : "",
      ", ",
      report.val_samples > 0 ? counted(report.val_samples, "validation sample") : "no validation samples",
      ", ", counted(report.parameters, "parameter"), ", ", counted(report.total_steps, "step"), ", ",
      counted(report.threads, "thread"));
  if (report.first_step > 0) line += concat("; resuming at step ", human_count(report.first_step));
  print(line);
  if (report.memory.total() == 0) return;
  print(memory_table(report.memory));
  if (report.memory.beside > 0)
    print(concat("in addition to this plan, the process already used ", human_bytes(report.memory.beside),
                 ": the program, its libraries and tables of the data"));
}

int64_t TrainView::progress_interval_ns() const {
  constexpr int64_t kLineNs = 300'000'000;
  constexpr int64_t kPlainLineNs = 10'000'000'000;
  return stderr_is_terminal() ? kLineNs : kPlainLineNs;
}

void TrainView::on_kernel_search(const run::KernelSearch& search) {
  const int64_t now = now_ns();
  if (now - search_shown_ns_ < progress_interval_ns()) return;
  if (std::exchange(search_shown_ns_, now) == 0) return;  // a note reports the beginning
  line_.show(concat("kernels: ", human_count(search.before), " chosen in ", human_seconds(search.seconds),
                    ", next ", search.key));
}

void TrainView::on_progress(const run::ProgressReport& report) {
  // A narrow terminal still shows the most important parts: the rate, the remaining time, and the limit.
  constexpr int kMostLeftOut = 5;
  std::string line;
  for (int left_out = 0; left_out <= kMostLeftOut; ++left_out) {
    line = progress_line(report, left_out);
    if (fit_terminal(line) == line) break;
  }
  line_.show(line);
  if (report.epoch_ended) line_.end();
}

void TrainView::on_validation(const run::ValidationReport& report) {
  std::string line =
      concat("validation after epoch ", fixed(report.epoch, 2), ": loss ", fixed(report.result.loss, 4));
  for (const auto& [name, value] : report.result.metrics) {
    if (name != engine::kLossMetric) line += concat("  ", name, " ", metric_text(name, value));
  }
  line +=
      concat("  (", counted(report.result.samples, "sample"), ", ", fixed(report.result.seconds, 1), " s)");
  if (report.result.dropped > 0) line += concat("  ", report.result.dropped, " unusable");
  if (report.is_best) line += "  best";
  print(line);
}

void TrainView::on_note(std::string_view text) {
  print(std::string(text));
}

void TrainView::on_warning(std::string_view text) {
  end_line();
  print_warning(concat(kWarningHead, text));
}

std::string stage_table(const run::StageReport& report) {
  std::vector<std::vector<std::string>> rows = {{"stage", "items", "samples/s alone", "busy", "waiting"}};
  for (const run::StageRow& row : report.rows) {
    rows.push_back({row.name, human_count(row.items),
                    row.alone_samples_per_s > 0 ? count(row.alone_samples_per_s) : "",
                    percent(row.busy_share), percent(row.wait_share)});
  }
  std::string text = format_table(rows);
  if (!report.advice.empty()) text += prose(report.advice) + "\n";
  if (const std::string cache = run::cache_text(report.cache); !cache.empty()) text += prose(cache) + "\n";
  if (report.communication) {
    const run::StageReport::Communication& c = *report.communication;
    text += prose(concat("The communication thread worked or waited for other processes for ",
                         fixed(c.busy_seconds, 2), " s, ", percent(c.hidden_share()),
                         " of it hidden behind training, and sent ",
                         human_bytes(static_cast<uint64_t>(c.bytes_sent)), ".\n"));
  }
  return text;
}

std::string device_table(const run::DeviceTimes& device) {
  if (device.steps == 0) return "";
  return ledger_table(run::report_ledger(device.entry),
                      concat("the device, ", counted(device.steps, "step")));
}

std::string ledger_table(const run::LedgerReport& report, const std::string& head) {
  std::vector<std::vector<std::string>> rows = {{head, "seconds", "share"}};
  for (const run::LedgerRow& row : report.rows)
    rows.push_back({row.name, fixed(row.seconds, 2), percent(row.share)});
  rows.push_back({"all", fixed(report.wall_seconds, 2), "100.0 %"});
  return concat(
      format_table(rows), "unaccounted: ", fixed(report.unaccounted_seconds, 3), " s, ",
      fixed(100 * report.unaccounted_share, 2), " %",
      report.lacks_something() ? " - more than 1 %: something in the training loop is not measured" : "",
      "\n");
}

}  // namespace dlpipe::cli
