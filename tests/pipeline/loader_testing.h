// Reading a loader to the end and remembering what a test compares: a hash of everything in each batch.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/pipeline/loader.h"

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

/// The error that ends the stream, or ok when it ends by itself.
inline Status read_to_error(Loader& loader) {
  while (true) {
    auto batch = loader.next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return {};
    throw_if_error(loader.release(**batch));
  }
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
