#include "dlpipe/cli/help_topics.h"

#include <algorithm>
#include <array>

#include "dlpipe/augment/op.h"
#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/help_text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/engine/metrics/metrics.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/config/config_choices.h"
#include "dlpipe/run/config/loss.h"

namespace dlpipe::cli {

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// `text` behind `indent` blanks, broken at the terminal's width; what follows stands four blanks further in.
std::string paragraph(const std::string& text, size_t indent) {
  return concat(std::string(indent, ' '), wrap(text, text_width() - indent - 4, indent + 4), "\n");
}

/// A table whose last column is broken where the terminal ends.
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
      wrap("Kinds: drawn and ints are a number, or a range LO..HI to draw from. One number of kind spread is "
           "a distance from the value that changes nothing: brightness(0.4) draws from 0.6..1.4. ops are "
           "other "
           "ops, with '|' between alternatives: one_of(hflip(1) | rot90 | invert).",
           width, 0),
      "\n",
      wrap(
          "No ops of one picture are mixup and CutMix, which are --mixup and --cutmix of train, and five and "
          "ten crops, which are --tta of eval.",
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
  return concat(
      wrap("Models. Their size is the height and width of their pictures, or their tokens.", text_width(), 0),
      "\n\n", table(rows));
}

/// A record of a choice: what it is, and below it the options that it takes, with their defaults.
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

std::string describe_metrics() {
  Rows rows = {{"metric", "what"}};
  for (const engine::MetricRecord* record : engine::MetricRegistry::builtin().records())
    rows.push_back({record->name, record->help});
  return table(rows);
}

std::string describe_losses() {
  return concat("Losses, and the options that each takes.\n\n", describe(run::LossRegistry::builtin()));
}

std::string describe_optimizers() {
  return concat(wrap("Optimizers, and the options that each takes, with their defaults. All take --lr-scale, "
                     "--wd-scale and --no-decay-vectors, too.",
                     text_width(), 0),
                "\n\n", describe(engine::OptimizerRegistry::builtin()));
}

std::string describe_schedules() {
  return concat(
      wrap("Schedules of the learning rate, and the options that each takes, with their defaults. --warmup "
           "is in epochs.",
           text_width(), 0),
      "\n\n", describe(engine::ScheduleRegistry::builtin()));
}

std::string describe_sources() {
  Rows rows = {{"source", "SRC"}};
  for (const data::SourceRecord* record : data::SourceRegistry::builtin().records())
    rows.push_back({record->name, record->help});
  return concat(
      wrap("What `dlpipe ingest SRC... DST` reads. SRC may be several, of one kind or of many: their classes "
           "are "
           "put together by name. 'shards-{000..127}.tar' and wildcards in quotes are expanded; --list FILE "
           "names further ones.",
           text_width(), 0),
      "\n\n", table(rows));
}

constexpr std::array<HelpTopic, 7> kTopics = {
    {{"losses", "what --loss may be", "loss", describe_losses,
      [] { return run::LossRegistry::builtin().names(); }},
     {"metrics", "what validation and eval report", "metrics", describe_metrics,
      [] { return engine::MetricRegistry::builtin().names(); }},
     {"models", "what --model may be", "model", describe_models,
      [] { return engine::ModelRegistry::builtin().names(); }},
     {"ops", "what --augment is made of", "", describe_ops,
      [] { return augment::OpRegistry::builtin().names(); }},
     {"optimizers", "what --optimizer may be", "optimizer", describe_optimizers,
      [] { return engine::OptimizerRegistry::builtin().names(); }},
     {"schedules", "what --schedule may be", "schedule", describe_schedules,
      [] { return engine::ScheduleRegistry::builtin().names(); }},
     {"sources", "what ingest reads", "", describe_sources,
      [] { return data::SourceRegistry::builtin().names(); }}}};

}  // namespace

std::span<const HelpTopic> help_topics() {
  return kTopics;
}

const HelpTopic* find_help_topic(std::string_view name) {
  for (const HelpTopic& topic : kTopics) {
    if (name == topic.name) return &topic;
  }
  return nullptr;
}

}  // namespace dlpipe::cli
