#include "cli/help.h"

#include <algorithm>
#include <array>

#include "augment/arguments.h"
#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/output.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/metrics.h"
#include "dlpipe/models.h"
#include "dlpipe/optim.h"
#include "dlpipe/source.h"
#include "run/config/choices.h"
#include "run/task/task.h"

namespace dlpipe::cli {

namespace {

struct Row {
  std::string left;
  std::string right;
};

/// "-o"; "" if there is none.
std::string short_name(const OptionText& option) {
  const auto is_short = [](const std::string& alias) { return !alias.starts_with("--"); };
  const auto found = std::ranges::find_if(option.aliases, is_short);
  return found != option.aliases.end() ? *found : "";
}

/// "--output" for --out, whose -o is shown before it; "--ckpt, --checkpoint CKPT" for the word CKPT. "" if there is none.
std::string other_names(const OptionText& option) {
  std::string names;
  for (const std::string& alias : option.aliases) {
    if (option.is_word() || alias.starts_with("--")) names += concat(names.empty() ? "" : ", ", alias);
  }
  return names.empty() || !option.is_word() ? names : concat(names, " ", option.name);
}

std::string with_value(const std::string& name, const OptionText& option) {
  return concat(name, option.value.empty() ? "" : " ", option.value);
}

// Two columns. If a long left column would make the right one too narrow, the right one begins on the next line.
std::string rows_text(const std::vector<Row>& rows, size_t width) {
  constexpr size_t kMostLeft = 28, kNarrow = 60, kIndent = 2;
  size_t left = 0;
  for (const Row& row : rows) left = std::max(left, std::min(row.left.size(), kMostLeft));
  const size_t column = width < kNarrow ? 3 * kIndent : kIndent + left + 2;
  std::string text;
  for (const Row& row : rows) {
    std::string line = std::string(kIndent, ' ') + row.left;
    if (line.size() + 2 > column) {
      text += line + "\n";
      line.clear();
    }
    line.resize(column, ' ');
    text += line + wrap(row.right, width - column, column) + "\n";
  }
  return text;
}

std::string section(std::string_view title, const std::vector<Row>& rows, size_t width) {
  if (rows.empty()) return "";
  return concat("\n", title, ":", "\n", rows_text(rows, width));
}

std::vector<Row> parts_of(const CommandText& command) {
  std::vector<Row> rows;
  for (const CommandText& part : command.parts)
    rows.push_back({part.name.substr(command.name.empty() ? 0 : command.name.size() + 1), part.help});
  return rows;
}

// All options under their headings, the command's own first.
std::string all_options(const CommandText& command, size_t width) {
  std::vector<std::pair<std::string, std::vector<Row>>> groups;
  for (const OptionText& option : command.options) {
    if (option.is_hidden || option.is_word()) continue;
    const std::string title = option.group.empty() ? "Options" : option.group;
    auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == title; });
    if (at == groups.end()) at = groups.insert(groups.end(), {title, {}});
    at->second.push_back({signature(option), full_help(option)});
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const auto& group) { return group.first != kEveryCommand; });
  std::string text;
  for (const auto& [title, rows] : groups) text += section(title, rows, width);
  return text;
}

std::string first_options(const CommandText& command, size_t width) {
  std::vector<Row> rows;
  for (const std::string& name : command.first) {
    const OptionText& option = *command.find(name);
    rows.push_back({signature(option), full_help(option)});
  }
  return section("Common options", rows, width);
}

std::string topics_text(const CommandText& command, size_t width) {
  std::vector<Row> rows;
  for (const HelpTopic& topic : help_topics()) rows.push_back({topic.name, topic.help});
  if (command.name.empty()) return section("Lists, shown by 'dlpipe --help NAME'", rows, width);
  return "";
}

std::string footer_text(const CommandText& command, bool all, size_t width) {
  std::string text;
  const auto line = [&](const std::string& words) { text += "\n" + wrap(words, width, 0) + "\n"; };
  if (command.name.empty()) {
    line("'dlpipe COMMAND --help' shows a command's options and their defaults.");
    line(concat("Exit codes: ", kExitCodes));
    return text;
  }
  const auto listed = [](const OptionText& option) { return !option.is_hidden && !option.is_word(); };
  if (!command.first.empty() && !all)
    line(concat("All ", std::ranges::count_if(command.options, listed), " options: dlpipe ", command.name,
                " --help-all"));
  if (!command.parts.empty()) line(concat("'dlpipe ", command.name, " PART --help' shows a part's options."));
  if (!command.footer.empty()) line(command.footer);
  return text;
}

}  // namespace

std::string usage(const CommandText& command) {
  std::string text = concat("dlpipe", command.name.empty() ? "" : " ", command.name);
  if (!command.parts.empty()) return text + (command.name.empty() ? " COMMAND ..." : " PART ...");
  for (const OptionText& option : command.options) {
    if (option.is_required && !option.is_word()) text += " " + with_value(option.name, option);
  }
  text += " [OPTIONS]";
  for (const OptionText& option : command.options) {
    if (!option.is_word()) continue;
    const std::string word = concat(option.name, option.is_list ? "..." : "");
    text += option.is_optional ? concat(" [", word, "]") : concat(" ", word);
  }
  return text;
}

std::string signature(const OptionText& option) {
  if (option.is_word()) return concat(option.name, option.is_list ? "..." : "");
  const std::string letter = short_name(option);
  return with_value(letter.empty() ? option.name : concat(letter, ", ", option.name), option);
}

std::string full_help(const OptionText& option) {
  std::string text = option.help;
  std::string more;
  const auto add = [&more](const std::string& one) { more += (more.empty() ? "" : "; ") + one; };
  constexpr size_t kFewChoices = 8;
  if (!option.choices.empty() && option.choices.size() <= kFewChoices && !option.is_list) {
    std::string words;
    for (const std::string& choice : option.choices) words += (words.empty() ? "" : ", ") + choice;
    add(words);
  }
  if (const std::string others = other_names(option); !others.empty()) add(concat("or ", others));
  if (option.is_required) add("required");
  if (!option.default_text.empty()) add(concat("default ", printable(option.default_text)));
  return more.empty() ? text : concat(text, " (", more, ")");
}

std::string help_text(const CommandText& command, bool all, size_t width) {
  std::string text = concat(wrap(command.help, width, 0), "\n\n", "Usage: ", usage(command), "\n");
  text += section(command.name.empty() ? "Commands" : "Parts", parts_of(command), width);
  std::vector<Row> words;
  for (const OptionText& option : command.options) {
    if (option.is_word()) words.push_back({signature(option), full_help(option)});
  }
  if (!words.empty()) text += "\n" + rows_text(words, width);
  text += all || command.first.empty() ? all_options(command, width) : first_options(command, width);
  return text + topics_text(command, width) + footer_text(command, all, width);
}

std::optional<HelpRequest> find_help_request(const CommandText& program,
                                             std::span<const std::string> arguments) {
  HelpRequest request;
  bool asked = false;
  const auto is_help = [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--help-all";
  };
  const CommandText* at = &program;
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (is_help(word)) {
      asked = true;
      request.all = request.all || word == "--help-all";
      continue;
    }
    // Before --help only commands count (`train --data D --help`); after it every word does (`--help ops`).
    std::vector<std::string> longer = request.words;
    longer.push_back(word);
    const CommandText* const next = asked ? nullptr : find_command(program, longer);
    if (asked && word.starts_with('-')) break;
    if (asked || (next != nullptr && !at->parts.empty())) request.words.push_back(word);
    if (next != nullptr) at = next;
  }
  return asked ? std::optional(request) : std::nullopt;
}

/// Null if there is none of that name.
static const HelpTopic* find_help_topic(std::string_view name) {
  for (const HelpTopic& topic : help_topics()) {
    if (name == topic.name) return &topic;
  }
  return nullptr;
}

Result<std::string> answer_help(const CommandText& program, const HelpRequest& request) {
  const CommandText* command = &program;
  for (size_t i = 0; i < request.words.size(); ++i) {
    const std::string& word = request.words[i];
    const CommandText* const next = find_command(program, std::span(request.words).first(i + 1));
    if (next != nullptr) {
      command = next;
      continue;
    }
    if (const HelpTopic* topic = find_help_topic(word); topic != nullptr && i + 1 == request.words.size())
      return topic->text();
    std::vector<std::string> known;
    for (const CommandText& part : command->parts) known.push_back(split(part.name, ' ').back());
    for (const HelpTopic& topic : help_topics()) known.emplace_back(topic.name);
    return misuse("help", "there is no help on '", word, "'", suggestion(word, known));
  }
  return help_text(*command, request.all, text_width());
}

// The lists of `--help NAME`.

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// `text` after `indent` blanks, wrapped at the terminal's width; the lines after the first are indented by four more.
std::string paragraph(const std::string& text, size_t indent) {
  return concat(std::string(indent, ' '), wrap(text, text_width() - indent - 4, indent + 4), "\n");
}

/// A table with its last column wrapped at the terminal's width.
std::string table(const Rows& rows) {
  constexpr size_t kLeast = 20;  // columns for words
  size_t before = 0;             // the columns left of it
  for (size_t c = 0; c + 1 < rows.front().size(); ++c) {
    size_t widest = 0;
    for (const std::vector<std::string>& row : rows) widest = std::max(widest, columns(row[c]));
    before += widest + 2;
  }
  const size_t width = std::max(text_width(), before + kLeast) - before;
  Rows broken;
  for (std::vector<std::string> row : rows) {
    for (const std::string& line : split(wrap(row.back(), width, 0), '\n')) {
      row.back() = line;
      broken.push_back(row);
      std::fill(row.begin(), row.end(), "");
    }
  }
  return format_table(broken);
}

std::string describe_op_parameter(const augment::OpParam& param) {
  const std::string bounds = augment::bounds_text(param);
  std::string choices;
  for (const std::string& choice : param.choices) choices += (choices.empty() ? ": " : ", ") + choice;
  return concat(param.name, " (", param.kind, bounds.empty() ? "" : ", " + bounds,
                param.unit.empty() ? "" : (bounds.empty() ? ", " : " ") + param.unit, ", ",
                param.default_value.empty() ? "required" : "default " + param.default_value, ")  ",
                param.help, choices);
}

std::string describe_ops() {
  const size_t width = text_width();
  std::string text = concat(
      wrap("Augmentations, written one after another: --augment \"pad_crop(32,4) hflip\". Arguments come in "
           "order or by name, hflip(p=0.3); those with a default may be left out.",
           width, 0),
      "\n",
      wrap("Kinds: drawn and ints are a number, or a range LO..HI to draw from. A single number of kind "
           "spread is a distance from the value that changes nothing: brightness(0.4) draws from 0.6..1.4. "
           "ops are other "
           "ops, with '|' between alternatives: one_of(hflip(1) | rot90 | invert).",
           width, 0),
      "\n",
      wrap("mixup, CutMix, five crops and ten crops are not ops, since they use several images or views: see "
           "--mixup and --cutmix of train, and --tta of eval.",
           width, 0),
      "\n\n");
  for (const augment::OpRecord* record : augment::OpRegistry::builtin().records()) {
    std::string signature;
    for (const augment::OpParam& param : record->params)
      signature += (signature.empty() ? "" : ", ") + param.name;
    text += paragraph(concat(record->name, "(", signature, ")  ", record->help), 0);
    for (const augment::OpParam& param : record->params) text += paragraph(describe_op_parameter(param), 4);
  }
  return text;
}

std::string describe_models() {
  Rows rows = {{"model", "size", "what"}};
  for (const engine::ModelRecord* record : engine::ModelRegistry::builtin().records()) {
    rows.push_back({record->name, record->default_size > 0 ? std::to_string(record->default_size) : "any",
                    record->help});
  }
  return concat(wrap("Models. Their size is the height and width of their images, or their number of tokens.",
                     text_width(), 0),
                "\n\n", table(rows));
}

/// Describes one choice: its help, and below it its options with their defaults.
std::string describe_choice(std::string_view name, std::string_view help,
                            std::span<const engine::OptionDefault> options) {
  const std::string taken = run::option_list(options);
  return paragraph(concat(name, "  ", help), 0) + (taken.empty() ? "" : paragraph(taken, 4));
}

template <class Record>
std::string describe(const Registry<Record>& registry) {
  std::string text;
  for (const Record* record : registry.records())
    text += describe_choice(record->name, record->help, record->options);
  return text;
}

std::string describe_tasks() {
  Rows rows = {{"task", "what the model learns, its loss and its metrics"}};
  for (const run::TaskRecord* task : run::TaskRegistry::builtin().records()) {
    std::string metrics;
    for (const std::string& name : task->metrics()) metrics += concat(metrics.empty() ? "" : ", ", name);
    rows.push_back({task->name, concat(task->help, "; loss ", task->loss, "; metrics ", metrics)});
  }
  return table(rows);
}

std::string describe_metrics() {
  Rows rows = {{"metric", "task", "what"}};
  for (const engine::MetricRecord* record : engine::MetricRegistry::builtin().records())
    rows.push_back({record->name,
                    record->name == std::string_view(engine::kLossMetric) ? "all" : record->task,
                    record->help});
  return table(rows);
}

std::string describe_losses() {
  std::string text = "Losses by task, and the options of each.\n";
  for (const run::TaskRecord* task : run::TaskRegistry::builtin().records()) {
    text += concat("\n--task ", task->name, "\n");
    for (const run::LossRecord* loss : run::LossRegistry::builtin().records())
      if (run::is_for(loss->tasks, task->name))
        text += describe_choice(loss->name, loss->help, loss->options);
  }
  return text;
}

std::string describe_optimizers() {
  return concat(wrap("Optimizers, and the options of each, with their defaults. All also have --lr-scale, "
                     "--wd-scale and --no-decay-vectors.",
                     text_width(), 0),
                "\n\n", describe(engine::OptimizerRegistry::builtin()));
}

std::string describe_schedules() {
  return concat(wrap("Schedules of the learning rate, and the options of each, with their defaults. --warmup "
                     "is in epochs.",
                     text_width(), 0),
                "\n\n", describe(engine::ScheduleRegistry::builtin()));
}

std::string describe_sources() {
  Rows rows = {{"source", "SRC"}};
  for (const data::SourceRecord* record : data::SourceRegistry::builtin().records())
    rows.push_back({record->name, record->help});
  return concat(
      wrap("Sources that `dlpipe ingest SRC... DST` reads. Several SRC, also of different kinds, become one "
           "dataset; their classes "
           "are matched by name. 'shards-{000..127}.tar' and wildcards in quotes are expanded; --list FILE "
           "names more sources.",
           text_width(), 0),
      "\n\n", table(rows));
}

constexpr std::array<HelpTopic, 8> kTopics = {
    {{"tasks", "what --task may be", "task", describe_tasks,
      [] { return run::TaskRegistry::builtin().names(); }},
     {"losses", "what --loss may be", "loss", describe_losses,
      [] { return run::LossRegistry::builtin().names(); }},
     {"metrics", "what validation and eval report", "metrics", describe_metrics,
      [] { return engine::MetricRegistry::builtin().names(); }},
     {"models", "values of --model", "model", describe_models,
      [] { return engine::ModelRegistry::builtin().names(); }},
     {"ops", "augmentations for --augment", "", describe_ops,
      [] { return augment::OpRegistry::builtin().names(); }},
     {"optimizers", "values of --optimizer", "optimizer", describe_optimizers,
      [] { return engine::OptimizerRegistry::builtin().names(); }},
     {"schedules", "values of --schedule", "schedule", describe_schedules,
      [] { return engine::ScheduleRegistry::builtin().names(); }},
     {"sources", "what ingest reads", "", describe_sources,
      [] { return data::SourceRegistry::builtin().names(); }}}};

}  // namespace

std::span<const HelpTopic> help_topics() {
  return kTopics;
}

}  // namespace dlpipe::cli
