// `dlpipe diff RUN RUN`: did I get the same run? Exit code 0 when equal, 1 when not.
#include <tuple>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/receipt.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string first;
  std::string second;
  bool json = false;
};

void add_table(const char* head, const std::vector<run::ReceiptDifference>& differences, std::string& text) {
  if (differences.empty()) return;
  std::vector<std::vector<std::string>> rows = {{head, "first", "second"}};
  for (const run::ReceiptDifference& one : differences) rows.push_back({one.field, one.first, one.second});
  text += format_table(rows);
}

formats::Json pairs_json(const std::vector<run::ReceiptDifference>& differences) {
  formats::Json pairs = formats::Json::object();
  for (const run::ReceiptDifference& one : differences)
    pairs.set(one.field, formats::Json(formats::Json::Array{one.first, one.second}));
  return pairs;
}

/// Null where nobody can say.
formats::Json same_batches_json(const run::RunDifference& difference) {
  return difference.can_compare_batches() ? formats::Json(difference.same_batches()) : formats::Json();
}

std::string batches_text(const run::RunDifference& difference) {
  if (difference.can_compare_batches())
    return concat("batches ", difference.same_batches() ? "equal" : "differ");
  return "batches can't be compared (they are hashed by --grains and --receipt, which differ)";
}

std::string difference_json(const run::RunDifference& difference) {
  using formats::Json;
  return Json::object({{"same", difference.same()},
                       {"same_batches", same_batches_json(difference)},
                       {"same_weights", difference.same_weights()},
                       {"first_different_step", difference.first_step},
                       {"beginning", difference.beginning == 0   ? Json()
                                     : difference.beginning == 1 ? Json("first")
                                                                 : Json("second")},
                       {"equal_weights_step", difference.weights_step},
                       {"options", pairs_json(difference.options)},
                       {"receipt", pairs_json(difference.receipt)}})
      .dump();
}

/// Which run is the other's beginning, and how that is known.
std::string beginning_text(const run::RunDifference& difference, const Options& options) {
  const bool is_first = difference.beginning == 1;
  const std::string& shorter = is_first ? options.first : options.second;
  const std::string& longer = is_first ? options.second : options.first;
  const std::string end = human_count(difference.end_step);
  if (difference.is_known_beginning())
    return concat(shorter, " is the beginning of ", longer, ": up to step ", end,
                  ", where it ends, losses and weights are equal, bit for bit");
  return concat(shorter, " may be the beginning of ", longer, ": up to step ", end,
                ", where it ends, all losses are equal; ",
                difference.weights_step >= 0
                    ? concat("the weights are equal after step ", human_count(difference.weights_step),
                             ", and not both noted at a later one")
                    : "the weights can't be compared, as both noted them at no common step");
}

/// What a longer run has otherwise, because it is longer.
bool is_of_length(const run::ReceiptDifference& difference) {
  const auto is = [&](const char* field) { return difference.field == field; };
  return is("steps") || is("samples") || is("finished") || is("batches_chain") || is("parameters_chain");
}

std::string kernels_text(const run::RunDifference& difference, const Options& options) {
  if (!difference.by_rules[0] && !difference.by_rules[1])
    return "other kernels were the fastest when each run measured them";
  const auto& [rules, measured] = difference.by_rules[0] ? std::tie(options.first, options.second)
                                                         : std::tie(options.second, options.first);
  return concat("the kernels of ", rules, " were chosen by rules, and ", measured, " measured its own");
}

std::string difference_report(const run::RunDifference& difference, const Options& options) {
  if (difference.same()) return "the same run: batches, losses and weights are equal, bit for bit";
  const bool is_beginning = difference.beginning != 0;
  std::vector<run::ReceiptDifference> receipt = difference.receipt;
  if (is_beginning) std::erase_if(receipt, is_of_length);
  std::string text = concat(is_beginning ? prose(beginning_text(difference, options))
                                         : concat(batches_text(difference), ", weights ",
                                                  difference.same_weights() ? "equal" : "differ"),
                            "\n");
  add_table("option", difference.options, text);
  add_table("receipt", receipt, text);
  if (difference.has_measured_otherwise())
    text += prose(
        concat(kernels_text(difference, options),
               ", which may change last bits; with --kernels rules they follow from the shapes alone\n"));
  if (difference.first_step >= 0 && !is_beginning) {
    text += concat("metrics differ from step ", difference.first_step, " on:\n  ", difference.first_line,
                   "\n  ", difference.second_line, "\n");
  }
  return text;
}

Status compare(const Options& options) {
  const run::RunDifference difference = value_or_throw(run::compare_runs(options.first, options.second));
  if (options.json)
    print_answer(difference_json(difference));
  else
    print_answer(difference_report(difference, options));
  if (difference.same()) return {};
  return {ErrorCode::kChanged,
          concat("[diff] ", options.first, " and ", options.second, " are not the same run",
                 difference.beginning != 0 ? ": one of them goes on longer" : "")};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("FIRST", options->first, "Run directory").required();
  flags.add_option("SECOND", options->second, "Run directory").required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return compare(*options); };
}

}  // namespace

extern const CommandRecord diff_command;
const CommandRecord diff_command = {"diff", "Compare two runs by their receipts", setup};

}  // namespace dlpipe::cli
