#include "io/data/inspect.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/random.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/restart.h"
#include "io/data/sample.h"
#include "io/data/schema.h"

namespace dlpipe::data {

namespace {

using Json = nlohmann::ordered_json;

// Counts by powers of two: value v >= 1 falls into the bin [2^k, 2^(k+1)), 0 into [0, 1).
class PowerHistogram {
 public:
  void add(int64_t value) { ++counts_[std::bit_width(static_cast<uint64_t>(std::max<int64_t>(0, value)))]; }
  std::vector<HistogramBin> bins() const {
    std::vector<HistogramBin> all;
    size_t first = 0;
    size_t last = counts_.size();
    while (first < last && counts_[first] == 0) ++first;
    while (last > first && counts_[last - 1] == 0) --last;
    for (size_t i = first; i < last; ++i)
      all.push_back({i == 0 ? 0 : int64_t{1} << (i - 1), int64_t{1} << i, counts_[i]});
    return all;
  }

 private:
  std::array<int64_t, 63> counts_{};
};

struct SpreadBuilder {
  int64_t min = std::numeric_limits<int64_t>::max();
  int64_t max = 0;
  int64_t sum = 0;
  int64_t count = 0;
  void add(int64_t value) {
    min = std::min(min, value);
    max = std::max(max, value);
    sum += value;
    ++count;
  }
  Spread spread() const {
    if (count == 0) return {};
    return {min, static_cast<double>(sum) / static_cast<double>(count), max};
  }
};

Json spread_json(const Spread& spread) {
  return {{"min", spread.min}, {"mean", spread.mean}, {"max", spread.max}};
}

Json histogram_json(const std::vector<HistogramBin>& bins) {
  Json all = Json::array();
  for (const HistogramBin& bin : bins)
    all.push_back({{"from", bin.from}, {"to", bin.to}, {"count", bin.count}});
  return all;
}

void describe(const Dataset& dataset, InspectReport& report) {
  report.directory = dataset.directory();
  report.id = dataset.id();
  report.samples = dataset.size();
  report.fields.assign(dataset.fields().begin(), dataset.fields().end());
  report.classes.assign(dataset.classes().begin(), dataset.classes().end());
  report.class_counts.assign(dataset.class_counts().begin(), dataset.class_counts().end());
  report.file_bytes = dataset.file_bytes();
  report.records_per_value = dataset.records_per_value();
  report.compression = dataset.compressed() ? "zstd" : "none";
  report.links = dataset.links();
  report.pixel_stats = dataset.pixel_stats();
}

// For linked records the links are enough: images are not read.
Result<std::vector<LabelCounts>> count_labels(const Dataset& dataset) {
  std::vector<LabelCounts> all;
  std::vector<size_t> places;
  const std::span<const Field> fields = dataset.fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind != FieldKind::kLabels) continue;
    all.push_back({fields[i].name, fields[i].of, std::vector<int64_t>(dataset.classes().size())});
    places.push_back(i);
  }
  if (all.empty()) return all;
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  std::vector<uint64_t> of_sample;
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    const auto bytes = record_without_image(dataset, *reader, sample);
    DLPIPE_RETURN_IF_ERROR(bytes.status());
    DLPIPE_ASSIGN_OR_RETURN(const RecordView view, parse_record(dataset, *bytes));
    for (size_t f = 0; f < all.size(); ++f) {
      const std::span<const std::byte> labels = view.fields[places[f]];
      of_sample.clear();
      for (size_t at = 0; at + sizeof(int64_t) <= labels.size(); at += sizeof(int64_t)) {
        const auto label = load_le<uint64_t>(labels, at);
        if (label >= all[f].counts.size())
          return Status(ErrorCode::kCorrupt,
                        concat("[inspect] sample ", sample, " of ", dataset.directory(), ": '", all[f].field,
                               "' holds a number that is not a class; `dlpipe verify ",
                               shell_word(dataset.directory()), "` lists all such samples"));
        of_sample.push_back(label);
      }
      if (all[f].of.empty()) {  // a sample that names a class twice counts once
        std::ranges::sort(of_sample);
        of_sample.erase(std::unique(of_sample.begin(), of_sample.end()), of_sample.end());
      }
      for (const uint64_t label : of_sample) ++all[f].counts[label];
    }
  }
  return all;
}

// Nanoseconds per item: runs rounds of `items` calls of `step` until the time is over, but at least 3 rounds.
template <class Step>
Result<std::vector<double>> time_rounds(double seconds, int64_t items, Step step) {
  std::vector<double> rounds;
  const int64_t end_ns = now_ns() + static_cast<int64_t>(seconds * 1e9);
  while (rounds.size() < 3 || (now_ns() < end_ns && rounds.size() < 1000)) {
    const int64_t begin_ns = now_ns();
    for (int64_t i = 0; i < items; ++i) DLPIPE_RETURN_IF_ERROR(step(i));
    rounds.push_back(static_cast<double>(now_ns() - begin_ns) / static_cast<double>(items));
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

double median(const std::vector<double>& sorted) {
  return sorted[sorted.size() / 2];
}

// Keeps the compiler from dropping the reads.
void keep(uint64_t value) {
  asm volatile("" : : "r"(value) : "memory");
}

Status touch(Dataset::Reader& reader, int64_t sample) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader.record(sample));
  if (!record.empty()) keep(static_cast<uint64_t>(record.front()) + static_cast<uint64_t>(record.back()));
  return {};
}

}  // namespace

Result<InspectReport> inspect(const Dataset& dataset) {
  InspectReport report;
  describe(dataset, report);
  SpreadBuilder bytes;
  SpreadBuilder width;
  SpreadBuilder height;
  PowerHistogram bytes_histogram;
  PowerHistogram side_histogram;
  std::array<int64_t, 256> layouts{};
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset.header(sample));
    bytes.add(header.size_bytes);
    width.add(header.width);
    height.add(header.height);
    bytes_histogram.add(header.size_bytes);
    side_histogram.add(std::max(header.width, header.height));
    ++layouts[static_cast<uint8_t>(header.layout)];
    report.grey += header.channels == 1 ? 1 : 0;
    report.rotated += header.orientation > 1 ? 1 : 0;
  }
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (layouts[i] > 0)
      report.layouts.emplace_back(image_layout_name(static_cast<ImageLayout>(i)), layouts[i]);
  }
  DLPIPE_ASSIGN_OR_RETURN(report.label_counts, count_labels(dataset));
  report.record_bytes = bytes.spread();
  report.width = width.spread();
  report.height = height.spread();
  report.record_bytes_histogram = bytes_histogram.bins();
  report.longer_side_histogram = side_histogram.bins();
  DLPIPE_ASSIGN_OR_RETURN(const auto skipped, dataset.skipped());
  report.skipped = static_cast<int64_t>(skipped.size());
  return report;
}

Result<std::vector<std::pair<std::string, int64_t>>> kept_as_jpeg(const Dataset& dataset) {
  std::map<std::string, int64_t> reasons;
  std::array<int64_t, 256> layouts{};
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  std::vector<int64_t> jpegs;
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset.header(sample));
    ++layouts[static_cast<uint8_t>(header.layout)];
    if (header.layout == ImageLayout::kJpeg) jpegs.push_back(sample);
  }
  const bool coefficients = layouts[static_cast<uint8_t>(ImageLayout::kCoefficients)] > 0;
  if (!coefficients && layouts[static_cast<uint8_t>(ImageLayout::kRestart)] == 0) jpegs.clear();
  for (const int64_t sample : jpegs) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader->record(sample));
    DLPIPE_ASSIGN_OR_RETURN(const RecordView view, parse_record(dataset, record));
    const auto again = coefficients ? encode_coefficients(view.image) : encode_restart(view.image);
    const double most = kMostBytesByDefault * static_cast<double>(view.image.size());
    ++reasons[!again.ok() ? again.status().message()
              : coefficients && static_cast<double>(again->size()) > most
                  ? "its coefficients would take more than 1.25 times as many bytes"
                  : "it would decode to different pixels"];
  }
  return std::vector<std::pair<std::string, int64_t>>(reasons.begin(), reasons.end());
}

std::string to_json(const InspectReport& report) {
  Json json;
  json["directory"] = report.directory;
  json["id"] = report.id;
  json["samples"] = report.samples;
  json["fields"] = Json::array();
  for (const Field& field : report.fields) {
    json["fields"].push_back({{"name", field.name},
                              {"kind", field_kind_name(field.kind)},
                              {"dtype", dtype_name(field.dtype)},
                              {"shape", std::vector<int64_t>(field.shape.begin(), field.shape.end())}});
    if (!field.of.empty()) json["fields"].back()["of"] = field.of;
  }
  json["classes"] = report.classes;
  json["class_counts"] = report.class_counts;
  json["label_counts"] = Json::object();
  for (const LabelCounts& field : report.label_counts) json["label_counts"][field.field] = field.counts;
  json["layouts"] = Json::object();
  for (const auto& [name, count] : report.layouts) json["layouts"][name] = count;
  json["file_bytes"] = report.file_bytes;
  json["records_per_value"] = report.records_per_value;
  json["compression"] = report.compression;
  json["links"] = report.links ? Json(*report.links) : Json();
  json["record_bytes"] = spread_json(report.record_bytes);
  json["width"] = spread_json(report.width);
  json["height"] = spread_json(report.height);
  json["grey"] = report.grey;
  json["rotated"] = report.rotated;
  json["record_bytes_histogram"] = histogram_json(report.record_bytes_histogram);
  json["longer_side_histogram"] = histogram_json(report.longer_side_histogram);
  const PixelStats& stats = report.pixel_stats;
  json["pixel_mean"] = std::vector<double>(stats.mean.begin(), stats.mean.begin() + stats.channels);
  json["pixel_std"] = std::vector<double>(stats.std.begin(), stats.std.begin() + stats.channels);
  json["skipped"] = report.skipped;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<StorageBench> bench_storage(const Dataset& dataset, const StorageBenchOptions& options) {
  StorageBench bench;
  bench.samples = dataset.size();
  bench.file_bytes = dataset.file_bytes();
  if (dataset.size() == 0) return misuse("bench", "the dataset is empty");
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());

  constexpr int64_t kMostItems = 100'000;
  const int64_t items = std::min(kMostItems, std::max<int64_t>(1000, dataset.size()));
  std::vector<int64_t> order(static_cast<size_t>(items));
  RandomStream random(options.seed, 0);
  for (int64_t& sample : order) sample = random.below(static_cast<uint32_t>(dataset.size()));

  // The first pass brings the pages in and gives the rate of the checksums.
  uint64_t bytes = 0;
  for (int pass = 0; pass < 2; ++pass) {
    bytes = 0;
    const int64_t begin_ns = now_ns();
    for (int64_t sample = 0; sample < dataset.size(); ++sample) {
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader->record(sample));
      keep(checksum64(record));
      bytes += record.size();
    }
    bench.checksum_bytes_per_s = static_cast<double>(bytes) * 1e9 / static_cast<double>(now_ns() - begin_ns);
  }
  DLPIPE_ASSIGN_OR_RETURN(const auto headers, time_rounds(options.seconds, items, [&](int64_t i) -> Status {
                            DLPIPE_ASSIGN_OR_RETURN(const RecordHeader row,
                                                    dataset.header(order[static_cast<size_t>(i)]));
                            keep(row.checksum);
                            return {};
                          }));
  DLPIPE_ASSIGN_OR_RETURN(const auto randomly, time_rounds(options.seconds, items, [&](int64_t i) {
                            return touch(*reader, order[static_cast<size_t>(i)]);
                          }));
  DLPIPE_ASSIGN_OR_RETURN(const auto in_order, time_rounds(options.seconds, std::min(items, dataset.size()),
                                                           [&](int64_t i) { return touch(*reader, i); }));
  bench.header_ns = median(headers);
  bench.random_record_ns = median(randomly);
  bench.random_spread = (randomly.back() - randomly.front()) / bench.random_record_ns;
  bench.sequential_record_ns = median(in_order);
  bench.samples_per_s = 1e9 / bench.random_record_ns;
  return bench;
}

}  // namespace dlpipe::data
