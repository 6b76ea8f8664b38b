#include "dlpipe/io/data/sources/read_budget.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

uint64_t ReadBudget::most(uint64_t input_bytes) {
  return input_bytes > (UINT64_MAX - kBase) / kPerByte ? UINT64_MAX : kBase + kPerByte * input_bytes;
}

ReadBudget::ReadBudget(const SourceOptions& options, std::string name, uint64_t input_bytes)
    : name_(std::move(name)),
      base_(options.shared_budget != nullptr ? options.shared_budget : std::make_shared<uint64_t>(kBase)) {
  add_input(input_bytes);
}

void ReadBudget::add_input(uint64_t bytes) {
  input_bytes_ += bytes;
  if (__builtin_add_overflow(left_, most(bytes) - kBase, &left_)) left_ = UINT64_MAX;
}

bool ReadBudget::spend(uint64_t bytes, uint64_t times) {
  uint64_t all = 0;
  if (__builtin_mul_overflow(bytes, times, &all)) return false;
  const uint64_t own = std::min(all, left_);
  if (all - own > *base_) return false;
  left_ -= own;
  *base_ -= all - own;
  return true;
}

Status ReadBudget::too_much(std::string_view what) const {
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(name_), ": ", what, " would take more memory than ", kPerByte,
                       " times its ", human_bytes(input_bytes_), " and ", human_bytes(kBase),
                       " for all inputs together; leave out what isn't needed, or divide it into several"));
}

Status ReadBudget::take(uint64_t bytes, uint64_t times, std::string_view what) {
  return spend(bytes, times) ? Status() : too_much(what);
}

Status ReadBudget::take_entries(uint64_t entries, uint64_t fields) {
  constexpr uint64_t kNameBytes = 2 * sizeof(std::string) + 32;
  constexpr uint64_t kGrowth = 2;  // of a vector that is filled one by one
  if (spend(kGrowth * (sizeof(SourceEntry) + kNameBytes) + fields * sizeof(std::string), entries)) return {};
  return too_much(concat("the list of its samples (", human_count(static_cast<int64_t>(entries)), " more)"));
}

Status check_field_count(const std::string& name, uint64_t fields) {
  if (fields <= kMostFields) return {};
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(name), " gives more than the ", human_count(kMostFields),
                       " fields of a dataset; leave some out"));
}

}  // namespace dlpipe::data
