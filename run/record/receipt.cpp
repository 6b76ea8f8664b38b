#include "run/record/receipt.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "dlpipe/config.h"
#include "dlpipe/log.h"
#include "engine/core/kernel_table.h"
#include "io/formats/atomic_file.h"
#include "run/config/config.h"
#include "run/config/values.h"
#include "run/input/path_kind.h"

namespace dlpipe::run {

using formats::Json;

static constexpr std::string_view kChainKey = "parameters_chain";  // of lines of metrics.jsonl

Json to_json(const Receipt& r) {
  return Json::object({{"dataset_id", r.dataset_id},
                       {"pipeline_id", r.pipeline_id},
                       {"subset", r.subset},
                       {"seed", r.seed},
                       {"grains", r.grains},
                       {"sync_bn", r.sync_bn},
                       {"compress", r.compress},
                       {"exact", r.exact},
                       {"tensor_parallel", r.tensor_parallel},
                       {"pipeline_parallel", r.pipeline_parallel},
                       {"build", r.build},
                       {"isa", r.isa},
                       {"kernels_hash", r.kernels_hash},
                       {"model", r.model},
                       {"dtype", r.dtype},
                       {"tf32", r.tf32},
                       {"steps", r.steps},
                       {"samples", r.samples},
                       {"finished", r.finished},
                       {"batches_chain", r.batches_chain},
                       {"parameters_chain", r.parameters_chain}});
}

Result<Receipt> read_receipt(const std::string& run_directory) {
  const std::string file = run_directory + "/receipt.json";
  Result<Json> json = formats::read_json(file);
  if (!json.ok()) {
    DLPIPE_RETURN_IF_ERROR(refuse_other_kind("diff", run_directory, Wanted::kRun));
    return json.status().with_context(concat("[diff] ", run_directory,
                                             " has no readable receipt (it is written when a "
                                             "run ends): "));
  }
  Receipt receipt;
  for (const auto& [name, member] : std::initializer_list<std::pair<const char*, std::string Receipt::*>>{
           {"dataset_id", &Receipt::dataset_id},
           {"pipeline_id", &Receipt::pipeline_id},
           {"build", &Receipt::build},
           {"isa", &Receipt::isa},
           {"kernels_hash", &Receipt::kernels_hash},
           {"model", &Receipt::model},
           {"dtype", &Receipt::dtype},
           {"batches_chain", &Receipt::batches_chain},
           {"parameters_chain", &Receipt::parameters_chain}}) {
    DLPIPE_ASSIGN_OR_RETURN(receipt.*member, formats::require_string(*json, name, file));
  }
  DLPIPE_ASSIGN_OR_RETURN(receipt.seed, formats::require_int(*json, "seed", file));
  DLPIPE_ASSIGN_OR_RETURN(receipt.steps, formats::require_int(*json, "steps", file));
  DLPIPE_ASSIGN_OR_RETURN(receipt.samples, formats::require_int(*json, "samples", file));
  receipt.finished = (*json)["finished"].as_bool();
  if ((*json)["subset"].is_string()) receipt.subset = (*json)["subset"].as_string();  // not in older ones
  receipt.grains = (*json)["grains"].as_int(1);                                       // not in older ones
  receipt.tensor_parallel = (*json)["tensor_parallel"].as_int(1);
  receipt.pipeline_parallel = (*json)["pipeline_parallel"].as_int(1);
  receipt.sync_bn = (*json)["sync_bn"].as_bool();
  if ((*json)["compress"].is_string()) receipt.compress = (*json)["compress"].as_string();
  if ((*json)["exact"].is_bool()) receipt.exact = (*json)["exact"].as_bool();
  receipt.tf32 = (*json)["tf32"].as_bool();  // false where a former version wrote none
  return receipt;
}

static bool lists(const std::vector<ReceiptDifference>& differences, std::string_view field) {
  return std::any_of(differences.begin(), differences.end(),
                     [&](const ReceiptDifference& difference) { return difference.field == field; });
}
bool RunDifference::can_compare_batches() const {
  return !lists(receipt, "grains") && !lists(options, "receipt");
}
bool RunDifference::same_batches() const {
  return !lists(receipt, "batches_chain");
}
bool RunDifference::same_weights() const {
  return !lists(receipt, "parameters_chain");
}
bool RunDifference::has_measured_otherwise() const {
  const bool decides = std::ranges::any_of(std::array{"model", "batch", "dtype", "augment", "grains", "isa"},
                                           [&](const char* name) { return lists(options, name); });
  return lists(receipt, "kernels_hash") && !lists(receipt, "isa") && !(by_rules[0] && by_rules[1]) &&
         !chose_none && !decides;
}

namespace {

/// Reads metrics.jsonl line by line. A missing file has no lines.
class MetricsLines {
 public:
  explicit MetricsLines(const std::string& path) : file_(path) {
    next();
    next();
  }
  const std::string& line() const { return line_; }
  bool is_over() const { return !has_line_; }
  bool is_last() const { return has_line_ && !has_following_; }
  bool holds(std::string_view key) const {
    return has_line_ && line_.find(concat('"', key, "\":")) != std::string::npos;
  }
  int64_t step() const {
    const auto json = Json::parse(line_);
    return json.ok() ? (*json)["step"].as_int(0) : 0;
  }
  void next() {
    line_ = std::move(following_);
    has_line_ = has_following_;
    has_following_ = static_cast<bool>(std::getline(file_, following_));
  }

 private:
  std::ifstream file_;
  std::string line_;
  std::string following_;
  bool has_line_ = false;
  bool has_following_ = false;
};

/// Skips a line of `one` that is not a difference: weights that only this run recorded (the other is older, or an epoch ended
/// elsewhere in it), or a final validation that was not due in the other run. Returns whether there was such a line.
bool skip_what_one_noted(MetricsLines& one, const MetricsLines& other) {
  const bool is_chain = one.holds(kChainKey) && !other.holds(kChainKey);
  const bool is_end = one.is_last() && one.holds("val_loss") && !other.holds("val_loss") && !other.is_over();
  if (is_chain || is_end) one.next();
  return is_chain || is_end;
}

}  // namespace

// The first line that differs shows from which step on the runs diverged.
static Status compare_metrics(const std::string& first, const std::string& second,
                              RunDifference& difference) {
  const std::array<std::string, 2> paths = {first + "/metrics.jsonl", second + "/metrics.jsonl"};
  for (const std::string& path : paths) {
    Status status = stamp_regular_file("receipt", path).status();
    if (!status.ok() && status.code() != ErrorCode::kNotFound) return status;  // a pipe would never end
  }
  MetricsLines a(paths[0]), b(paths[1]);
  int64_t equal = 0;
  while (!a.is_over() || !b.is_over()) {
    if (!a.is_over() && !b.is_over() && a.line() == b.line()) {
      ++equal;
      if (a.holds(kChainKey)) difference.weights_step = a.step();
      a.next();
      b.next();
      continue;
    }
    if (skip_what_one_noted(a, b) || skip_what_one_noted(b, a)) continue;
    difference.first_step = a.is_over() ? b.step() : a.step();
    difference.first_line = a.is_over() ? "(none)" : a.line();
    difference.second_line = b.is_over() ? "(none)" : b.line();
    if (equal > 0 && (a.is_over() || b.is_over())) difference.beginning = a.is_over() ? 1 : 2;
    return {};
  }
  return {};
}

/// "/data/a (94c5ed67c6ec4878)".
static std::string with_id(const std::string& path, const std::string& id) {
  return id.empty() ? path : concat(path.empty() ? "the data's own" : path, " (", id, ")");
}

/// Whether a run's kernels were chosen by rules, which an option, the environment or several machines may cause. kernels.json has
/// a reason for each measured kernel.
static bool is_by_rules(const std::string& directory, const TrainConfig& config) {
  if (config.kernels == name_of(kKernelsByNames, KernelsBy::kRules)) return true;
  const auto kernels = formats::read_file(directory + "/kernels.json");
  return kernels.ok() && kernels->find("\"why\"") == std::string::npos;
}

/// Whether a run's kernels.json exists but is empty: the run had no step.
static bool has_no_kernels(const std::string& directory) {
  const auto kernels = formats::read_json(directory + "/kernels.json");
  return kernels.ok() && (*kernels)["choices"].is_object() && (*kernels)["choices"].members().empty();
}

// Runs whose config can't be read are compared only by their results.
static void compare_options(const std::string& first, const std::string& second, RunDifference& difference) {
  TrainConfig a, b;
  bool is_read = true;
  for (const auto& [directory, config] : {std::pair{&first, &a}, std::pair{&second, &b}}) {
    const Status status = read_config(*directory + "/config.toml", *config);
    is_read = is_read && status.ok();
    if (!status.ok() && status.code() != ErrorCode::kNotFound)
      log(LogLevel::kWarning, concat(status.message(), "; options are not compared"));
  }
  if (!is_read) return;
  difference.chose_none = has_no_kernels(first) || has_no_kernels(second);
  difference.by_rules = {is_by_rules(first, a), is_by_rules(second, b)};
  for (const ConfigOption& option : config_options()) {
    const std::string_view name = option.name;
    if (name == "out") continue;
    const std::string id = concat(name, "-id");
    const std::string id_a = a.record[id], id_b = b.record[id];
    if (!id_a.empty() && id_a == id_b) continue;  // the same dataset, even in another place
    const std::string text_a = with_id(option_text(option, a), id_a);
    const std::string text_b = with_id(option_text(option, b), id_b);
    if (text_a != text_b) difference.options.push_back({std::string(name), text_a, text_b});
  }
}

Result<RunDifference> compare_runs(const std::string& first, const std::string& second) {
  DLPIPE_ASSIGN_OR_RETURN(const Receipt a, read_receipt(first));
  DLPIPE_ASSIGN_OR_RETURN(const Receipt b, read_receipt(second));
  RunDifference difference;
  const Json json_a = to_json(a);
  const Json json_b = to_json(b);
  for (const auto& [field, value] : json_a.members()) {
    const Json& other = json_b[field];
    if (value == other) continue;
    const auto text = [](const Json& v) { return v.is_string() ? v.as_string() : v.dump(); };
    difference.receipt.push_back({field, text(value), text(other)});
  }
  compare_options(first, second, difference);
  DLPIPE_RETURN_IF_ERROR(compare_metrics(first, second, difference));
  const Receipt& shorter = difference.beginning == 2 ? b : a;
  if (a.steps == b.steps || shorter.steps > std::min(a.steps, b.steps)) difference.beginning = 0;
  if (difference.beginning != 0) difference.end_step = shorter.steps;
  return difference;
}

std::string build_line() {
  return concat("dlpipe ", DLPIPE_VERSION, " (", DLPIPE_BUILD_TYPE, ", ", DLPIPE_COMPILER, ", ",
                engine::kernel_library(), ")");
}

// DLPIPE_LIBRARIES is "name=version,name=version", written by CMake from the libraries it found.
std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> versions;
  for (const std::string& entry : split(DLPIPE_LIBRARIES, ',')) {
    const std::vector<std::string> parts = split(entry, '=');
    if (parts.size() == 2) versions.emplace_back(parts[0], parts[1]);
  }
  return versions;
}

}  // namespace dlpipe::run
