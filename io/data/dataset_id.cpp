#include "dlpipe/io/data/dataset_id.h"

#include <xxhash.h>

#include <new>

#include "dlpipe/base/text.h"

namespace dlpipe::data {

struct DatasetIdHash::State {
  XXH3_state_t* hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

DatasetIdHash::DatasetIdHash() : state_(std::make_unique<State>()) {
  if (state_->hash == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_->hash);
}
DatasetIdHash::~DatasetIdHash() = default;

void DatasetIdHash::add_rows(std::span<const std::byte> rows) {
  XXH3_64bits_update(state_->hash, rows.data(), rows.size());
}

std::string DatasetIdHash::id(const DatasetInfo& info) {
  if (info.version >= 2) {  // version 1 left the statistics out
    const auto channels = static_cast<size_t>(info.pixel_stats.channels);
    add_rows(std::as_bytes(std::span(info.pixel_stats.mean).first(channels)));
    add_rows(std::as_bytes(std::span(info.pixel_stats.std).first(channels)));
  }
  const std::string identity = identity_json(info);
  return hex64(checksum64(std::as_bytes(std::span(identity)), XXH3_64bits_digest(state_->hash)));
}

}  // namespace dlpipe::data
