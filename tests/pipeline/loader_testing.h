// Reading a loader to the end and remembering what a test compares: a hash of everything in each batch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/loader.h"
#include "dlpipe/random.h"

namespace dlpipe::pipeline {

inline std::unique_ptr<Loader> open_loader(const LoaderOptions& options) {
  return value_or_throw(Loader::open(options));
}

/// Pixels, labels, ids, weights, mixes, place in the epoch and chain of one batch on the CPU.
inline uint64_t batch_hash(const Batch& batch) {
  uint64_t hash = 0;
  const auto add = [&](std::span<const std::byte> bytes) { hash = data::checksum64(bytes, hash); };
  for (const BatchField& field : batch.fields) {
    const int64_t rows = field.spec->ragged ? field.offsets.back() : batch.capacity;
    add({field.data, field.spec->sample_bytes() * static_cast<size_t>(rows)});
    add(std::as_bytes(field.offsets));
  }
  add(std::as_bytes(batch.weight));
  add(std::as_bytes(batch.sample_ids));
  add(std::as_bytes(std::span(batch.prep->mix)));
  const int64_t place[] = {batch.epoch, batch.index, batch.count, batch.last_in_epoch};
  add(std::as_bytes(std::span(place)));
  add(std::as_bytes(std::span(&batch.chain, 1)));
  return hash;
}

/// Hashes of the next `batches` batches, or of all that are left.
inline std::vector<uint64_t> read_hashes(Loader& loader, int64_t batches = -1) {
  std::vector<uint64_t> hashes;
  while (batches < 0 || static_cast<int64_t>(hashes.size()) < batches) {
    const std::optional<Batch> batch = value_or_throw(loader.next());
    if (!batch.has_value()) break;
    hashes.push_back(batch_hash(*batch));
    throw_if_error(loader.release(*batch));
  }
  return hashes;
}

/// The same `batches` batches with 1, 2, 3 and 8 threads, and where a run of them was resumed behind the fifth.
inline void expect_same_everywhere(LoaderOptions options, size_t batches) {
  options.threads = 1;
  options.slots = 1;
  const auto expected = read_hashes(*open_loader(options));
  ASSERT_EQ(expected.size(), batches);
  EXPECT_NE(expected[0], expected[batches / 2]);
  for (const int threads : {2, 3, 8}) {
    options.threads = threads;
    options.slots = threads;
    EXPECT_EQ(read_hashes(*open_loader(options)), expected) << threads;
  }
  const auto first = open_loader(options);
  read_hashes(*first, 5);
  const SourceState state = first->state();
  options.threads = 2;
  const auto resumed = open_loader(options);
  throw_if_error(resumed->seek(state));
  EXPECT_EQ(read_hashes(*resumed), std::vector<uint64_t>(expected.begin() + 5, expected.end()));
}

/// The error that ends the stream, or ok when it ends by itself.
inline Status read_to_error(Loader& loader) {
  while (true) {
    auto batch = loader.next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return {};
    throw_if_error(loader.release(**batch));
  }
}

/// Two epochs in batches of 8 that read_hashes compares.
inline LoaderOptions two_epochs_of(const std::string& data) {
  LoaderOptions options;
  options.data = data;
  options.batch = 8;
  options.threads = 2;
  options.seed = 3;
  options.epochs = 2;
  options.hash_pixels = true;
  return options;
}

/// Calls look(a, b) with the batches of two loaders, side by side; both have as many, and one at least.
template <class Look>
void read_side_by_side(Loader& first, Loader& second, const Look& look) {
  int64_t batches = 0;
  while (const auto a = value_or_throw(first.next())) {
    const auto b = value_or_throw(second.next());
    ASSERT_TRUE(b.has_value()) << "behind " << batches << " batches";
    look(*a, *b);
    throw_if_error(first.release(*a));
    throw_if_error(second.release(*b));
    ++batches;
  }
  EXPECT_FALSE(value_or_throw(second.next()).has_value()) << "behind " << batches << " batches";
  EXPECT_GT(batches, 0);
}

/// Calls look(batch) with all batches until the loader's end; there is one at least.
template <class Look>
void read_all(Loader& loader, const Look& look) {
  int64_t batches = 0;
  while (const auto batch = value_or_throw(loader.next())) {
    look(*batch);
    throw_if_error(loader.release(*batch));
    ++batches;
  }
  EXPECT_GT(batches, 0);
}

/// The corrupt samples that a loader met; none of them is in a batch.
inline std::set<int64_t> replaced_samples(Loader& loader) {
  std::set<int64_t> bad, used;
  read_all(loader, [&](const Batch& batch) {
    for (const Substitution& one : batch.substitutions) bad.insert(one.bad_sample);
    used.insert(batch.sample_ids.begin(), batch.sample_ids.end());
  });
  for (const int64_t sample : bad) EXPECT_FALSE(used.contains(sample)) << sample;
  return bad;
}

/// The bytes of sample `i` of a batch in a field of a fixed size.
inline std::span<const std::byte> bytes_of_sample(const Batch& batch, const char* name, int64_t i) {
  const BatchField& field = *batch.field(name);
  const size_t size = field.spec->sample_bytes();
  return {field.data + static_cast<size_t>(i) * size, size};
}

inline void expect_same_images(const Batch& a, const Batch& b) {
  for (int64_t i = 0; i < a.capacity; ++i)
    EXPECT_TRUE(std::ranges::equal(bytes_of_sample(a, "image", i), bytes_of_sample(b, "image", i))) << i;
}

inline LoaderOptions images_alone(LoaderOptions options) {
  options.fields = {"image"};
  return options;
}

/// Two loaders' batches hold the same images.
inline void expect_same_images(const LoaderOptions& first, const LoaderOptions& second) {
  const auto one = open_loader(first);
  const auto other = open_loader(second);
  read_side_by_side(*one, *other, [](const Batch& a, const Batch& b) { expect_same_images(a, b); });
}

/// What the chain draws sample `i` of a batch by.
inline SampleKey key_of(const LoaderOptions& options, const Batch& batch, int64_t i) {
  const int64_t position = batch.index * options.batch + i;
  return {options.seed, batch.epoch, position, 0, batch.sample_ids[static_cast<size_t>(i)]};
}

/// The rows of sample `i` of a batch in a field without a fixed size.
template <class T>
std::vector<T> rows_of(const Batch& batch, const char* name, int64_t i) {
  const BatchField& field = *batch.field(name);
  const size_t row = field.spec->sample_bytes();
  const auto begin = static_cast<size_t>(field.offsets[static_cast<size_t>(i)]) * row;
  const auto end = static_cast<size_t>(field.offsets[static_cast<size_t>(i) + 1]) * row;
  std::vector<T> rows((end - begin) / sizeof(T));
  if (!rows.empty()) std::memcpy(rows.data(), field.data + begin, end - begin);
  return rows;
}

}  // namespace dlpipe::pipeline
