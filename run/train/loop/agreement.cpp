#include "dlpipe/run/train/loop/agreement.h"

#include <cstring>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/pipeline/loader.h"

namespace dlpipe::run {

using formats::Json;

namespace {

Json bad_json(std::span<const StepOutcome::BadSample> bad) {
  Json all = Json::array();
  for (const StepOutcome::BadSample& one : bad) {
    all.push_back(Json::object({{"epoch", one.epoch},
                                {"position", one.what.position},
                                {"bad", one.what.bad_sample},
                                {"used", one.what.used_sample},
                                {"attempt", static_cast<int64_t>(one.what.attempt)},
                                {"reason", one.what.reason}}));
  }
  return all;
}

Status book(BatchSource& source, const Json& bad) {
  for (const Json& one : bad.items()) {
    Substitution what;
    what.position = one["position"].as_int();
    what.bad_sample = one["bad"].as_int();
    what.used_sample = one["used"].as_int();
    what.attempt = static_cast<int32_t>(one["attempt"].as_int());
    what.reason = one["reason"].as_string();
    DLPIPE_RETURN_IF_ERROR(source.book(one["epoch"].as_int(), std::span(&what, 1)));
  }
  return {};
}

std::string_view bytes_of(const std::vector<uint64_t>& chains) {
  return {reinterpret_cast<const char*>(chains.data()), chains.size() * sizeof(uint64_t)};
}

}  // namespace

void Agreement::ask(const std::atomic<bool>* stop, std::span<const StepOutcome::BadSample> bad,
                    const std::string& what) {
  stop_ = stop;
  if (ranks_.all == nullptr) return;
  const Json mine = Json::object(
      {{"stop", stop != nullptr && stop->load()}, {"time_ns", now_ns()}, {"bad", bad_json(bad)}});
  const std::vector<std::string> texts = value_or_throw(ranks_.all->gather(mine.dump(), what));
  Json bad_of_replica;
  stopped_ = false;
  for (size_t r = 0; r < texts.size(); ++r) {
    const Json one = value_or_throw(Json::parse(texts[r]));
    const int rank = static_cast<int>(r);
    if (rank == 0) time_ns_ = one["time_ns"].as_int();
    stopped_ |= one["stop"].as_bool();
    if (ranks_.replica_rank_of(rank) == 0) {
      bad_of_replica = one["bad"];
      if (ranks_.data_rank_of(rank) != ranks_.data_rank()) throw_if_error(book(source_, bad_of_replica));
    } else if (!(one["bad"] == bad_of_replica)) {
      throw Error(Status(ErrorCode::kIo,
                         concat("[train] ranks ", rank - ranks_.replica_rank_of(rank), " and ", rank,
                                " compute the same samples, and one could not read what the other could; "
                                "go on with --resume")));
    }
  }
}

int64_t Agreement::time_ns() const {
  return ranks_.all == nullptr ? now_ns() : time_ns_;
}

SourceState Agreement::whole_state() const {
  SourceState state = source_.state();
  if (ranks_.data == nullptr || state.grain_chains.empty()) return state;
  const std::vector<std::string> all =
      value_or_throw(ranks_.data->gather(bytes_of(state.grain_chains), "the chains of the batches"));
  const size_t own = state.grain_chains.size() / all.size();  // a rank's grains stand together
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t first = rank * own;
    std::memcpy(&state.grain_chains[first], all[rank].data() + first * sizeof(uint64_t),
                own * sizeof(uint64_t));
  }
  state.chain = pipeline::chain_of(state.grain_chains);
  return state;
}

}  // namespace dlpipe::run
