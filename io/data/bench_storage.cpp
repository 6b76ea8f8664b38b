#include "dlpipe/io/data/bench_storage.h"

#include <algorithm>
#include <vector>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::data {

namespace {

// Nanoseconds an item: rounds of `items` calls of `step` until the time is over, at least 3 rounds.
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
