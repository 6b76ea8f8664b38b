#include "run/train/session/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "engine/core/kernel_table.h"
#include "io/formats/json.h"
#include "run/record/receipt.h"
#include "run/train/session/linked_data.h"

namespace dlpipe::run {

using formats::Json;

namespace {

/// Options that may change on resume, but must be the same on all ranks of a session.
constexpr std::array<std::string_view, 7> kShared = {
    "dtype",           "device", "bucket-mb", "shard-optimizer", "tensor-parallel", "pipeline-parallel",
    "checkpoint-every"};

bool is_path(std::string_view name) {
  return name == "out" ||
         std::ranges::any_of(kPathOptions, [&](const PathOption& option) { return name == option.name; });
}

/// The values that must be equal on all ranks, by the names that errors use.
Json facts_of(const SessionOptions& options) {
  Json facts = Json::object();
  for (const ConfigOption& option : config_options()) {
    const std::string_view name = option.name;
    const bool is_own = option.free_on_resume && std::ranges::find(kShared, name) == kShared.end();
    if (!is_own && !is_path(name)) facts.set(concat("--", name), option_text(option, options.config));
  }
  for (const PathOption& option : kPathOptions) {
    const bool has_images = is_of_images(options.config, option);
    facts.set(concat("what --", option.name, " is"), has_images ? "images" : "a dataset");
  }
  facts.set("the build", build_line());
  facts.set("the instruction set", std::string(engine::isa_name(engine::kernel_isa())));
  return facts;
}

Json facts_of(const SessionData& data, uint64_t weights_hash) {
  return Json::object({{"the dataset", data.dataset_id},
                       {"the validation set", data.val_id},
                       {"the pipeline", data.pipeline_id},
                       {"the hash of the first weights", hex64(weights_hash)}});
}

/// The message for the first difference; empty if there is none.
std::string first_difference(const std::vector<Json>& all) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    for (const auto& [name, value] : all.front()["facts"].members()) {
      const Json& other = all[rank]["facts"][name];
      if (other == value) continue;
      return concat("[train] the processes differ in ", name, ": rank ", rank, " has '", other.as_string(),
                    "', rank 0 '", value.as_string(), "'; start all of them the same way");
    }
  }
  return "";
}

void check_agree(Json facts, const Status& prepared, engine::Collective& ranks) {
  const Json mine = Json::object({{"code", static_cast<int64_t>(prepared.code())},
                                  {"error", prepared.message()},
                                  {"facts", std::move(facts)}});
  std::vector<Json> all;
  for (const std::string& text : value_or_throw(ranks.gather(mine.dump(), "the beginning of the run")))
    all.push_back(value_or_throw(Json::parse(text)));
  const auto refuse_all = [&](ErrorCode code, const std::string& message) {
    throw Error(Status(code, ranks.rank() == 0 ? message : ""));
  };
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto code = static_cast<ErrorCode>(all[rank]["code"].as_int());
    if (code == ErrorCode::kOk) continue;
    refuse_all(code,
               concat(rank == 0 ? "" : concat("[ranks] rank ", rank, ": "), all[rank]["error"].as_string()));
  }
  if (const std::string difference = first_difference(all); !difference.empty())
    refuse_all(ErrorCode::kMisuse, difference);
}

}  // namespace

void check_options_agree(const SessionOptions& options, const Status& prepared, engine::Collective& ranks) {
  Status status = prepared;
  Json facts = Json::object();
  try {
    if (prepared.ok()) facts = facts_of(options);
  } catch (...) {  // a folder that can't be read
    status = status_from_current_exception("train");
  }
  check_agree(std::move(facts), status, ranks);
}

void check_data_agree(const SessionData& data, uint64_t weights_hash, const Status& prepared,
                      engine::Collective& ranks) {
  check_agree(prepared.ok() ? facts_of(data, weights_hash) : Json::object(), prepared, ranks);
}

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
      throw Error(Status(
          ErrorCode::kIo,
          concat(
              "[train] ranks ", rank - ranks_.replica_rank_of(rank), " and ", rank,
              " compute the same samples, but different samples were unreadable; continue with --resume")));
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
  const size_t own = state.grain_chains.size() / all.size();  // a rank's grains are adjacent
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t first = rank * own;
    std::memcpy(&state.grain_chains[first], all[rank].data() + first * sizeof(uint64_t),
                own * sizeof(uint64_t));
  }
  state.chain = pipeline::chain_of(state.grain_chains);
  return state;
}

namespace {

Json told(const Status& status) {
  return Json::object({{"code", static_cast<int64_t>(status.code())}, {"error", status.message()}});
}

}  // namespace

Result<FileDescriptions> write_optimizer_parts(engine::Collective& ranks,
                                               const Result<std::string>& directory,
                                               const std::vector<engine::NamedTensor>& own) {
  const bool is_first = ranks.rank() == 0;
  DLPIPE_ASSIGN_OR_RETURN(
      const std::vector<std::string> directories,
      ranks.gather(is_first && directory.ok() ? *directory : "", "a checkpoint's directory"));
  if (directories.front().empty()) {
    if (is_first) return directory.status();
    return Status(ErrorCode::kIo, "[checkpoint] rank 0 could not make the checkpoint's directory");
  }
  const Result<Json> written = write_optimizer_part(directories.front(), ranks.rank(), ranks.world(), own);
  const Json mine =
      written.ok() ? Json::object({{"code", int64_t{0}}, {"files", *written}}) : told(written.status());
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          ranks.gather(mine.dump(), "all parts of a checkpoint"));
  Json files = Json::object();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    DLPIPE_ASSIGN_OR_RETURN(const Json its, Json::parse(texts[rank]));
    const auto code = static_cast<ErrorCode>(its["code"].as_int());
    if (code != ErrorCode::kOk)
      return Status(
          code, concat("[checkpoint] rank ", rank, " could not write its part: ", its["error"].as_string()));
    for (const auto& [name, description] : its["files"].members()) files.set(name, description);
  }
  return files;
}

}  // namespace dlpipe::run
