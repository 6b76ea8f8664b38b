// Samples on their way: checked, gathered in portions, worked on at once and taken in order.
#include <algorithm>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/ingest/freeze.h"
#include "dlpipe/run/ingest/options.h"
#include "dlpipe/run/ingest/sample_writer_impl.h"

namespace dlpipe::ingest {

namespace {

constexpr uint64_t kPortionBytes = 16 << 20;
constexpr size_t kPortionSamples = 1024;

/// A split's folder: one that Dataset::open finds, and none outside of DST.
Status check_split_name(const std::string& name) {
  const bool is_folder = name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
                         (name.empty() || name.front() != '.') && name.size() < 200;
  if (is_folder) return {};
  return misuse("writer", "split '", printable(name),
                "' is no name of a folder; use 'train', 'val' or 'test'");
}

}  // namespace

Status SampleWriter::Impl::check(const NewSample& sample) const {
  const std::vector<data::Field>& fields = options.fields;
  if (sample.values.size() != fields.size())
    return misuse("writer", "sample ", next, " has ", sample.values.size(), " values for ", fields.size(),
                  " fields: ", fields_text(fields));
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto expected = data::fixed_field_bytes(fields[i]);
    const bool is_label = fields[i].kind == data::FieldKind::kLabel;
    if (!is_label && expected && sample.values[i].size() != *expected)
      return misuse("writer", "sample ", next, ": field '", printable(fields[i].name), "' has ",
                    sample.values[i].size(), " bytes, its shape says ", *expected);
  }
  const auto labels_fields = std::count_if(fields.begin(), fields.end(), [](const data::Field& field) {
    return field.kind == data::FieldKind::kLabels;
  });
  if (sample.labels.size() != static_cast<size_t>(labels_fields))
    return misuse("writer", "sample ", next, " has ", sample.labels.size(), " lists of labels for ",
                  labels_fields, " fields of labels");
  if (!label_field && sample.label.index() != 0)
    return misuse("writer", "sample ", next, " has a label, and the dataset has no field for it");
  if (!splits.empty() && sample.split.empty() != splits.front().name.empty())
    return misuse("writer", "sample ", next,
                  sample.split.empty() ? " is in no split, and those before were in one"
                                       : concat(" is in the split '", printable(sample.split),
                                                "', and those before were in none"),
                  "; use splits for all or none");
  return check_split_name(sample.split);
}

size_t SampleWriter::Impl::split_of(const std::string& name) {
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].name == name) return i;
  }
  splits.push_back({name, 0, nullptr});
  return splits.size() - 1;
}

Status SampleWriter::Impl::add(NewSample&& sample) {
  if (state.total >= 0 && next >= static_cast<uint64_t>(state.total))
    return misuse("writer", "the interrupted writer had ended after ", state.total,
                  " samples, and here is one more; finish it, or begin again with interrupted 'restart'");
  DLPIPE_RETURN_IF_ERROR(check(sample));
  const size_t known_classes = state.schema.classes.size();
  const Labels known_labels = state.labels;
  const Result<int64_t> label = number_labels(sample);
  if (!label.ok()) {  // as if it had not come
    state.schema.classes.resize(known_classes);
    state.labels = known_labels;
    return label.status();
  }
  const size_t split = split_of(sample.split);
  uint64_t bytes = 0;
  for (const auto& value : sample.values) bytes += value.size();
  if (next >= splits[split].done) {
    filling.items.push_back({next, split, *label, std::move(sample.values), std::move(sample.problem)});
    filling.bytes += bytes;
  }
  ++next;
  note_border(bytes);
  if (filling.bytes < kPortionBytes && filling.items.size() < kPortionSamples) return {};
  return failure = turn();
}

/// Commits lie where the sequence of samples alone says, so that a continued writer commits at the same places.
void SampleWriter::Impl::note_border(uint64_t bytes) {
  bytes_since_border += bytes;
  if (bytes_since_border < options.ingest.commit_bytes &&
      ++samples_since_border < options.ingest.commit_entries)
    return;
  filling.borders.push_back({filling.items.size(), next});
  bytes_since_border = 0;
  samples_since_border = 0;
}

/// The portion that is full goes to the workers, and what they had goes to the environments.
Status SampleWriter::Impl::turn() {
  DLPIPE_RETURN_IF_ERROR(drain());
  working = std::move(filling);
  filling = {};
  start_workers();
  return {};
}

void SampleWriter::Impl::start_workers() {
  if (working.items.empty()) return;
  const int jobs = options.ingest.jobs > 0 ? options.ingest.jobs : available_threads();
  while (image_workers.size() < static_cast<size_t>(jobs))
    image_workers.push_back(std::make_unique<ImageWorker>(options.ingest, state.schema, counters));
  OrderedWorkers::Job job;
  job.end = working.items.size();
  job.window = kAllOfIt / 2;
  job.cost = [this](uint64_t i) {
    uint64_t bytes = 512;
    for (const auto& value : working.items[i].values) bytes += value.size();
    return bytes;
  };
  job.work = [this](int worker, uint64_t i) -> OrderedWorkers::Outcome {
    Item& item = working.items[i];
    if (!item.problem.empty()) return Status(ErrorCode::kNotFound, item.problem);
    ImageWorker::Values values(item.values.begin(), item.values.end());
    if (label_field) values[*label_field] = std::as_bytes(std::span(&item.label, 1));
    std::vector<std::byte> picture;
    if (image_field) picture = std::move(item.values[*image_field]);
    return image_workers[static_cast<size_t>(worker)]->pack(std::move(picture), std::move(values));
  };
  workers = std::make_unique<OrderedWorkers>(jobs, std::move(job));
}

Status SampleWriter::Impl::drain() {
  std::vector<OrderedWorkers::Outcome> outcomes;
  outcomes.reserve(working.items.size());
  for (size_t i = 0; i < working.items.size(); ++i) {
    outcomes.push_back(workers->next());
    Status status = outcomes.back().status();
    if (status.code() == ErrorCode::kOutOfMemory) return status;
  }
  workers.reset();
  if (state.schema.records_per_value == 0 && !outcomes.empty()) decide_packing(outcomes);
  const int64_t write_begin_ns = now_ns();
  auto border = working.borders.begin();
  for (size_t i = 0; i <= working.items.size(); ++i) {
    for (; border != working.borders.end() && border->items == i; ++border)
      DLPIPE_RETURN_IF_ERROR(commit(border->position));
    if (i < working.items.size()) DLPIPE_RETURN_IF_ERROR(take(working.items[i], outcomes[i]));
  }
  write_ns += now_ns() - write_begin_ns;
  working = {};
  return {};
}

void SampleWriter::Impl::decide_packing(const std::vector<OrderedWorkers::Outcome>& outcomes) {
  uint64_t bytes = 0, count = 0;
  for (const OrderedWorkers::Outcome& outcome : outcomes) {
    if (!outcome.ok()) continue;
    bytes += outcome->stored.size();
    ++count;
  }
  state.schema.records_per_value =
      records_per_value(count == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(count));
}

std::string SampleWriter::Impl::name_of(const Item& item) const {
  std::string name = concat("sample ", item.number);
  if (path_field && !item.values[*path_field].empty()) {
    const std::vector<std::byte>& path = item.values[*path_field];
    name = std::string(reinterpret_cast<const char*>(path.data()), path.size());
  }
  return name;
}

Status SampleWriter::Impl::take(const Item& item, const OrderedWorkers::Outcome& outcome) {
  Split& split = splits[item.split];
  if (!split.writer) DLPIPE_RETURN_IF_ERROR(open_writer(split));
  if (outcome.ok()) {
    const auto number = std::ranges::find(state.splits, split.name) - state.splits.begin();
    images.add(static_cast<size_t>(number), split.writer->samples(), outcome->image_checksum);
    return split.writer->add(*outcome);
  }
  if (item.problem.empty() && !is_bad_file(outcome.status())) return outcome.status();
  const std::string name = name_of(item);
  if (options.ingest.on_error == OnError::kStop)
    return bad_file_error("writer", concat("sample ", item.number, " (", printable(name), ")"),
                          outcome.status());
  return split.writer->skip(item.number, name, outcome.status().message());
}

}  // namespace dlpipe::ingest
