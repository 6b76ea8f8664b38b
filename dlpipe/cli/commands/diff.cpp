// `dlpipe diff RUN RUN`: did I get the same run? Exit code 0 when equal, 1 when not.

#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/receipt.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string first;
  std::string second;
  bool json = false;
};

std::string difference_json(const run::RunDifference& difference) {
  using formats::Json;
  Json fields = Json::object();
  for (const run::ReceiptDifference& field : difference.receipt) {
    fields.set(field.field, Json(Json::Array{field.first, field.second}));
  }
  return Json::object({{"same", difference.same()},
                       {"same_batches", difference.same_batches()},
                       {"same_weights", difference.same_weights()},
                       {"first_different_step", difference.first_step},
                       {"receipt", std::move(fields)}})
      .dump();
}

std::string difference_report(const run::RunDifference& difference) {
  if (difference.same()) return "the same run: batches, losses and weights are equal, bit for bit";
  std::string text = concat("batches ", difference.same_batches() ? "equal" : "differ", ", weights ",
                            difference.same_weights() ? "equal" : "differ", "\n");
  if (!difference.receipt.empty()) {
    std::vector<std::vector<std::string>> rows = {{"receipt", "first", "second"}};
    for (const run::ReceiptDifference& field : difference.receipt)
      rows.push_back({field.field, field.first, field.second});
    text += format_table(rows);
  }
  if (difference.first_step >= 0) {
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
    print_answer(difference_report(difference));
  if (difference.same()) return {};
  return {ErrorCode::kChanged,
          concat("[diff] ", options.first, " and ", options.second, " are not the same run")};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("FIRST", options->first, "Run directory").required();
  flags.add_option("SECOND", options->second, "Run directory").required();
  flags.add_flag("--json", options->json, "Print one JSON line on stdout");
  return [options] { return compare(*options); };
}

}  // namespace

extern const CommandRecord diff_command;
const CommandRecord diff_command = {"diff", "Compare two runs by their receipts", setup};

}  // namespace dlpipe::cli
